"""Bringing a store's schema up to this program's.

Stands alone: nothing else needs Alembic.
"""

from __future__ import annotations

from functools import cache

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from longshore.dispatcher.store.errors import StoreUnusable
from longshore.dispatcher.store.migration_steps import IN_STEPS

SCRIPTS = "longshore.dispatcher.store:migrations"

_log = structlog.get_logger("longshore.store")


def migrate(engine: Engine) -> None:
    """Run the migrations that the store behind `engine` lacks, in steps (see `migration_steps`).

    The caller holds the store's lock: no other opener migrates meanwhile. A line of the log says
    what an older store was brought from and to: there is no way back. What was done before a crash
    counts, and the next call does the rest. Raises `StoreUnusable` when a newer Longshore wrote the
    store.
    """
    with engine.connect() as connection:
        config = config_for(connection)
        config.attributes[IN_STEPS] = True
        current = MigrationContext.configure(connection).get_current_revision()
        newest, *older = _revisions()
        if current == newest:
            return
        if current is not None and current not in older:
            raise StoreUnusable(
                f"the store has schema {current}, but this Longshore knows only up to"
                f" {newest}: run the newer Longshore that wrote it, or open"
                " another store"
            )
        command.upgrade(config, "head")
        connection.commit()
    if current is not None:
        # Told once it is committed; what was made just now has not been migrated.
        _log.info("store migrated", **{"from": current, "to": newest})


@cache
def _revisions() -> tuple[str, ...]:
    """Return all revisions, the newest first; reading them takes as long as opening a store."""
    script = ScriptDirectory.from_config(_config())
    return tuple(each.revision for each in script.walk_revisions())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    return config


def config_for(connection: Connection) -> Config:
    """Return Alembic's settings for the store behind an open connection."""
    config = _config()
    config.attributes["connection"] = connection
    return config

"""The JSON of the server's health."""

from __future__ import annotations

from typing import Annotated

import msgspec

from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT

ProblemWord = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "enum": [
                *("store", "stopping", "logs", "disk", "secrets", "certificate", "issuer"),
                *(
                    "notifications",
                    "cost_export",
                    "prices",
                    "traces",
                    "credentials",
                    "listings",
                    "creates",
                    "creates_in_doubt",
                    "boots",
                    "destroys",
                ),
            ]
        }
    ),
]
"""Those of this version; to a client, one of a newer server's is as good."""


class ProblemAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong, and is told until it is over.

    `since` is when that became known; `message` says what is wrong, and why.
    """

    kind: ProblemWord
    since: str | None
    message: str


class LiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    live: bool = True


class ReadyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether requests can be served (`ready`), and whether anything is wrong (`degraded`).

    A server that is not ready is degraded, too. One that is ready and degraded takes requests; what
    is wrong with the cloud, or with a disk, is among its `problems`. `advice` is what would make
    instances better, a sentence each; they work without.
    """

    ready: bool
    degraded: bool
    problems: list[ProblemAnswer]
    advice: list[str]


class StoreAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The store's files and disk.

    `wal_bytes` is what is committed and not in the database yet; `pending_writes` are the
    containers and changes that wait to be committed. `free_inodes` is null where the file system
    has no fixed number of them.
    """

    database_bytes: int
    wal_bytes: int
    pending_writes: int
    free_bytes: int
    free_inodes: int | None


class LogsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of the logs; `free_inodes` is null where it has no fixed number of them."""

    free_bytes: int
    free_inodes: int | None


class HealthAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How the server does: what `/health/ready` says, always with status 200, and its disks."""

    ready: Annotated[bool, NEVER_ABSENT]
    degraded: bool
    problems: list[ProblemAnswer]
    advice: list[str]
    store: StoreAnswer
    logs: LogsAnswer

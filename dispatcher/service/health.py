"""How the whole server does: what is wrong, and since when, with the cloud and with itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from longshore.dispatcher.domain.views import Health, Problem, ProblemKind
from longshore.dispatcher.domain.vitals import DiskRoom, Vitals
from longshore.dispatcher.engine.runtime import Runtime
from longshore.dispatcher.explain.health import (
    advice_of,
    cloud_problems,
    failed_last,
    smaller_machines,
    without_price,
)
from longshore.dispatcher.logs.store import LogStore
from longshore.dispatcher.store.vault import Vault

LEAST_FREE_BYTES = 512 * 1024**2
LEAST_FREE_INODES = 10_000
WATCH_EACH_S = 5.0
_TOLD = 3
_WELL_AGAIN = 1.25
"""How many times the least must be free before a full disk is well: it may go up and down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Something that may go wrong beside the engine, the store and the disks.

    `problem` is asked on the loop's thread, and says in a sentence what is wrong and what to do
    about it, "" for nothing.
    """

    kind: ProblemKind
    problem: Callable[[], str]


class HealthService:
    """Gathers what is wrong; on the loop's thread."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        vault: Vault,
        logs: LogStore,
        now: Callable[[], float],
        watched: Sequence[Watched] = (),
    ) -> None:
        self._runtime = runtime
        self._vault = vault
        self._store = vault.store
        self._logs = logs
        self._now = now
        self._watched = (Watched(kind=ProblemKind.SECRETS, problem=self._secrets), *watched)
        self._key_file_problem = ""
        self._since: dict[ProblemKind, float] = {}

    def health(self) -> Health:
        """Return whether requests can be served, and what is wrong."""
        pool = self._runtime.view.pool
        failed = failed_last(pool, self._now())
        advice = (*advice_of(pool), *smaller_machines(pool), *without_price(pool), *failed)
        return Health(problems=self.problems(), advice=advice)

    def vitals(self) -> Vitals:
        """Return how store and disk do."""
        return Vitals(store=self._store.vitals(), logs=self._logs.room())

    async def watch(self) -> None:
        """Look by itself until it is cancelled: `since` is not when somebody asked first."""
        while True:
            await self.look()
            await asyncio.sleep(WATCH_EACH_S)

    async def look(self) -> None:
        """Find out what is wrong, also what takes a look at a file."""
        self.problems()
        self._key_file_problem = await asyncio.to_thread(self._vault.key_file_problem)

    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong at this moment, first what keeps requests from being served."""
        now = self._now()
        stopping = ""
        if self._runtime.failure is not None:
            stopping = "the server is stopping after an error; see its log"
        elif self._runtime.stopping:
            stopping = "the server is shutting down"
        of_server = [
            *self._lasting(ProblemKind.STORE, self._store.problem, now),
            *self._lasting(ProblemKind.STOPPING, stopping, now),
            *self._lasting(ProblemKind.LOGS, self._logs.problem, now),
            *self._lasting(ProblemKind.DISK, self._shortage(), now),
        ]
        for each in self._watched:
            of_server += self._lasting(each.kind, each.problem(), now)
        return (*of_server, *cloud_problems(self._runtime.view.pool, now))

    def _lasting(self, kind: ProblemKind, message: str, now: float) -> Iterator[Problem]:
        if message:
            since = self._since.setdefault(kind, now)
            yield Problem(kind=kind, since=since, message=message)
        else:
            self._since.pop(kind, None)

    def _secrets(self) -> str:
        """Return which secrets cannot be decrypted, now or after the next start, "" for none."""
        box, path = self._vault.box, self._vault.key_file.path
        if len(box.key_ids) < len(box.data_keys):
            locked, waiting = self._vault.known().locked, self._runtime.view.without_key()
            if locked or waiting or not box.key_ids:
                return missing_key(str(path), locked, waiting)
        if self._key_file_problem:
            return (
                f"the next start could decrypt no secret: {self._key_file_problem}; put the key"
                " file back as it was, or run 'longshore secret rotate-keys' before the server"
                " ends: it writes a new one"
            )
        return ""

    def _shortage(self) -> str:
        """Return which disk is nearly full, "" for none."""
        factor = _WELL_AGAIN if ProblemKind.DISK in self._since else 1.0
        store, logs = self._store.vitals().room, self._logs.room()
        return shortage_of_bytes(store, factor) or next(
            (told for room in (store, logs) if (told := shortage_of_inodes(room, factor))), ""
        )


def shortage_of_bytes(room: DiskRoom, factor: float) -> str:
    """Return that a disk has less than `factor` times the least bytes free, "" if it has not."""
    if room.free_bytes >= LEAST_FREE_BYTES * factor:
        return ""
    free_mib = room.free_bytes // 1024**2
    return f"the disk of {room.directory} is nearly full: {free_mib} MiB are free"


def shortage_of_inodes(room: DiskRoom, factor: float) -> str:
    """Return that a disk takes less than `factor` times the least files, "" if it takes more."""
    if room.free_inodes is None or room.free_inodes >= LEAST_FREE_INODES * factor:
        return ""
    return (
        f"the file system of {room.directory} is nearly out of inodes: it takes"
        f" {room.free_inodes} files more, whatever its free bytes"
    )


def missing_key(key_file: str, locked: AbstractSet[tuple[str, str]], waiting: Sequence[str]) -> str:
    """Return that a key to secrets is missing, which they are, and who waits for it.

    `locked` are projects and names, `waiting` ids of containers.
    """
    names = [f"{name} of project {project}" for project, name in sorted(locked)]
    secrets = "secret" if len(names) == 1 else f"{len(names)} secrets"
    if names:
        told = f"the key to the {secrets} ({_some(names)}) is missing"
    elif waiting:
        told = "the key to secret values of containers is missing"
    else:
        told = "no secret can be set, since their key is missing"
    if waiting:
        who = "1 container waits" if len(waiting) == 1 else f"{len(waiting)} containers wait"
        told += f", and {who} for it ({_some(waiting)})"
    return (
        f"{told}: put back the key file {key_file}; if it is lost for good, run 'longshore secret"
        " rotate-keys', set these secrets again, and cancel who waits on"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return f"{', '.join(names[:_TOLD])}{more}"

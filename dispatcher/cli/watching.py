"""Waiting for containers and jobs: from the server's events, and by asking while there are none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import container_words, job_words
from longshore.dispatcher.cli.answers import UNFINISHED_JOB_STATES, Awaited, is_final, read_awaited
from longshore.dispatcher.cli.client import CommandClient, Json
from longshore.dispatcher.cli.events import Changed, Connected, Disconnected, EventFeed, FeedItem
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.ids import path_of

ASK_INTERVAL_S = 2.0
GLANCE_INTERVAL_S = 5.0
GLANCE_CONTAINERS = 20
PATIENCE_S = 600.0


class Watcher:
    """Follows containers and jobs until all have ended.

    An absent server is an error at first and a nuisance later: once there was contact, it is tried
    again for `PATIENCE_S`.
    """

    def __init__(
        self,
        client: CommandClient,
        identifiers: Sequence[str],
        *,
        changed: Callable[[Awaited], None],
        say: Callable[[str], None],
    ) -> None:
        self.ids = list(dict.fromkeys(identifiers))
        #: What is known, by id: as JSON, and as read.
        self.raw: dict[str, Json] = {}
        self.answers: dict[str, Awaited] = {}
        self._client = client
        #: Called for every change a person may want to see.
        self._changed = changed
        #: Called with a sentence about the connection.
        self._say = say
        self._connected = False
        self._last_contact = time.monotonic()
        self._last_glance = time.monotonic()
        self._glanced = 0
        self._doubtful: set[str] = set()

    def run(self, timeout_s: float | None) -> bool:
        """Return when all have ended, or False after `timeout_s` (None: no limit).

        Raises `CommandFailure` when one does not exist or the server stays away.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for identifier in self.ids:
            self._ask(identifier)
        if not self._open():
            return True
        with EventFeed(self._client) as feed:
            while self._open():
                pause_s = ASK_INTERVAL_S
                if deadline is not None:
                    pause_s = min(pause_s, deadline - time.monotonic())
                if pause_s <= 0:
                    return False
                self._take(feed.next(pause_s))
        return True

    def _open(self) -> list[str]:
        return [each for each in self.ids if not is_final(self.answers[each])]

    def _take(self, item: FeedItem | None) -> None:
        match item:
            case Connected():
                if not self._connected:
                    self._look(self._open())
                self._connected = True
            case Changed(kind="container", data=data):
                self._hear(data)
            case Changed(kind="job", data=data):
                self._hear_job(data)
            case Changed(kind="gap"):
                self._look(self._open())
            case Disconnected(failure=failure):
                if self._connected:
                    self._say(f"{failure.sentence}; trying again")
                self._connected = False
            case _ if not self._connected:
                self._look(self._open())
        if time.monotonic() - self._last_glance > GLANCE_INTERVAL_S:
            self._glance()

    def _hear(self, data: Mapping[str, Any]) -> None:
        """Ask for a container that changed state: an event may tell less than the whole."""
        identifier = str(data.get("id"))
        known = self.answers.get(identifier)
        if known is not None and not is_final(known) and known.state != data.get("state"):
            self._look([identifier])

    def _hear_job(self, data: Mapping[str, Any]) -> None:
        """Take how far a job is from its event, and ask for one that has ended."""
        job_id = str(data.get("id"))
        known = self.answers.get(job_id)
        if not isinstance(known, JobAnswer) or is_final(known):
            return
        if "counts" not in data or data.get("state") not in UNFINISHED_JOB_STATES:
            self._look([job_id])
        else:
            # Many a second, where thousands of containers are short: none is worth a question.
            self._note(job_id, dict(data))

    def _glance(self) -> None:
        """Look at some of the open ones in turn: why they wait changes without an event."""
        self._last_glance = time.monotonic()
        if still_open := self._open():
            start = self._glanced % len(still_open)
            chosen = (still_open + still_open)[start : start + GLANCE_CONTAINERS]
            self._glanced += GLANCE_CONTAINERS
            self._look(list(dict.fromkeys(chosen)))

    def _look(self, identifiers: Sequence[str]) -> None:
        for identifier in identifiers:
            try:
                self._ask(identifier)
            except CommandFailure as failure:
                if not failure.passing or time.monotonic() - self._last_contact > PATIENCE_S:
                    raise
                return

    def _ask(self, identifier: str) -> None:
        answer = self._client.get(path_of(identifier))
        self._last_contact = time.monotonic()
        self._note(identifier, answer)

    def _note(self, identifier: str, raw: Json) -> None:
        seen = read_awaited(identifier, raw)
        # Under the id that was asked for, whatever a server says its id is.
        before = self.answers.get(identifier)
        if isinstance(seen, ContainerAnswer) and not is_final(seen):
            self._note_doubt(identifier, seen.doubt or "")
        self.raw[identifier] = raw
        self.answers[identifier] = seen
        if before is None or (before.state, _note(before)) != (seen.state, _note(seen)):
            self._changed(seen)

    def _note_doubt(self, identifier: str, doubt: str) -> None:
        """Say that nobody knows how one goes on that should run, once each time that it is so."""
        if doubt and identifier not in self._doubtful:
            self._say(f"{identifier} is in doubt: {doubt}")
            self._doubtful.add(identifier)
        elif not doubt:
            self._doubtful.discard(identifier)


def _note(seen: Awaited) -> str:
    return job_words.note(seen) if isinstance(seen, JobAnswer) else container_words.note(seen)

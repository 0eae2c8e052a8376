"""What there is to be sent of what has just ended: who hears it, and what was missed before.

Each thing is told once in the life of a process: of a container how many of its attempts were told
is remembered until it ends, of an instance whether its becoming ready was. A process that starts
takes what was recorded before for told, and what ended since the cursor of the one before it
(`cursor`) is looked up in the store instead: that process may have ended before it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.messages import Publication, PublishContainer, PublishInstance
from longshore.dispatcher.store.trace_reader import EndedSince
from longshore.pool.model import READY

_READY = frozenset(each.value for each in READY)
_GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerNews:
    """Attempts of a container have ended, all but the first `after`; or all of it has."""

    container: Container
    after: int

    @property
    def key(self) -> str:
        """Return what tells it from all other news; the same in each process."""
        ended = len(self.container.attempts) - self.container.has_open_attempt
        return f"{self.container.id}/{'end' if self.container.state.final else ended}"

    @property
    def ended_at(self) -> float:
        """Return when it ended or somewhat before, in seconds since the epoch; never later."""
        ends = [each.finished_at or 0.0 for each in self.container.attempts]
        return self.container.finished_at or max(ends, default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNews:
    """An instance has become ready for the first time, or is gone."""

    instance_id: str
    is_gone: bool

    @property
    def key(self) -> str:
        """Return what tells it from all other news; the same in each process."""
        return f"{self.instance_id}/{_GONE if self.is_gone else 'ready'}"


News = ContainerNews | InstanceNews


class Listener:
    """Finds the news in what the engine publishes; used on the loop's thread, and quick."""

    def __init__(
        self, known: Iterable[Container], ready: Iterable[str], tell: Callable[[News], None]
    ) -> None:
        """`known` are the containers that have not ended, and `ready` the instances that were."""
        self._told = {each.id: count for each in known if (count := _ended_attempts(each))}
        self._ready = set(ready)
        self._tell = tell

    def hear(self, what: Publication) -> None:
        """Tell what has ended with it, if anything has."""
        if isinstance(what, PublishContainer):
            self._hear_container(what.container)
        elif isinstance(what, PublishInstance):
            self._hear_instance(what)

    def _hear_container(self, container: Container) -> None:
        told, ended = self._told.get(container.id, 0), _ended_attempts(container)
        if container.state.final:
            self._told.pop(container.id, None)
        elif ended > told:
            self._told[container.id] = ended
        else:
            return
        self._tell(ContainerNews(container=container, after=told))

    def _hear_instance(self, what: PublishInstance) -> None:
        worker_id = what.worker_id
        if what.gone is not None:
            self._ready.discard(worker_id)
            self._tell(InstanceNews(instance_id=worker_id, is_gone=True))
        elif what.state in _READY and worker_id not in self._ready:
            self._ready.add(worker_id)
            self._tell(InstanceNews(instance_id=worker_id, is_gone=False))


def missed(since: EndedSince, found: Iterable[Container], sent: frozenset[str]) -> Iterator[News]:
    """Yield the news that an earlier process has not sent, but for those whose keys are `sent`.

    `found` are the containers that `since` names.
    """
    ended = frozenset(since.containers)
    for container in found:
        named = since.attempts.get(container.id, frozenset())
        places = [n for n, each in enumerate(container.attempts) if each.id in named]
        sent_until = [n + 1 for n in places if f"{container.id}/{n + 1}" in sent]
        first = min(places, default=len(container.attempts))
        news = ContainerNews(container=container, after=max([first, *sent_until]))
        is_over = container.id in ended
        is_new = is_over or news.after < _ended_attempts(container)
        if is_new and is_over is container.state.final and news.key not in sent:
            yield news
    for is_gone, ids in ((False, since.ready), (True, since.gone)):
        for instance_id in ids:
            told = InstanceNews(instance_id=instance_id, is_gone=is_gone)
            if told.key not in sent:
                yield told


def _ended_attempts(container: Container) -> int:
    return len(container.attempts) - container.has_open_attempt

"""What was decided lately of instances, and who made way for others, in order; pure.

A scheduler that only acts is asked "why?" by whoever pays for it. So the acts themselves are kept,
each once, with the reason that was known at that moment: an instance bought and for whom, one that
is shut down, creates that are held, an attempt that made way. The latest of them, in memory alone:
a restart forgets them, and says since when they are kept.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final

from longshore.dispatcher.domain.containers import AttemptOutcome
from longshore.dispatcher.domain.messages import Publication, PublishContainer, PublishInstance
from longshore.dispatcher.state.history import Decision, DecisionKind
from longshore.pool.holds import CreateHold
from longshore.pool.messages import CreateInstance, PoolCommand
from longshore.pool.model import Payer, WorkerState

MOST_DECISIONS: Final = 2000
"""How many are kept."""

_GONE = "gone"


class _Once:
    """Knows what it was told lately, so that nothing is noted twice."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    def is_new(self, key: str) -> bool:
        """Return whether it hears of something for the first time."""
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > 2 * MOST_DECISIONS:
            self._known.popitem(last=False)
        return True

    def forget(self, key: str) -> None:
        """Take the next time for the first."""
        self._known.pop(key, None)


class DecisionLog:
    """The latest decisions of one engine."""

    def __init__(self) -> None:
        self._kept: deque[Decision] = deque(maxlen=MOST_DECISIONS)
        self._count = 0
        self._once = _Once()
        #: When the first turn of the engine was, in seconds since the epoch; None before.
        self.since: float | None = None

    def latest(
        self, *, kinds: frozenset[DecisionKind] | None, before: int | None, limit: int
    ) -> list[Decision]:
        """Return up to `limit` decisions, the newest first.

        `kinds` None is for all; `before` is the number that all are below, None for from the last.
        """
        found: list[Decision] = []
        for each in reversed(self._kept):
            if (before is None or each.number < before) and (kinds is None or each.kind in kinds):
                found.append(each)
                if len(found) == limit:
                    break
        return found

    def take_in(
        self, commands: Iterable[PoolCommand], published: Iterable[Publication], now: float
    ) -> None:
        """Note what a turn of the engine decided, by what it sends out at `now`."""
        if self.since is None:
            self.since = now
        for command in commands:
            if isinstance(command, CreateInstance) and self._once.is_new(command.launch.token):
                self._bought(command, now)
        for news in published:
            match news:
                case PublishInstance():
                    self._instance(news, now)
                case PublishContainer():
                    self._container(news, now)
                case _:
                    continue

    def held(self, holds: Sequence[CreateHold], now: float) -> None:
        """Note the holds of creates that have begun since the last time."""
        for hold in holds:
            if self._once.is_new(f"hold {hold.cause.value} {hold.scope} {hold.since}"):
                of = hold.scope.type_name or hold.scope.group or "all types"
                said = f"creates of {of} wait ({hold.cause.value}): {hold.reason}"
                self._note(
                    DecisionKind.CREATES_HELD, said, now, instance_type=hold.scope.type_name or ""
                )

    def _bought(self, command: CreateInstance, now: float) -> None:
        type_ = command.instance_type
        said = (
            f"an instance of {type_.name} is created, at {type_.price_usd_per_hour.normalize():f}"
            f" USD an hour, for {_named(command.launch.payer)}"
        )
        self._note(DecisionKind.BOUGHT, said, now, instance_type=type_.name)

    def _instance(self, news: PublishInstance, now: float) -> None:
        key = f"end {news.worker_id}"
        if news.state == _GONE:
            self._once.forget(key)
        elif news.state == WorkerState.SHUTDOWN.value and self._once.is_new(key):
            said = f"{news.worker_id} is shut down: {news.reason}"
            self._note(DecisionKind.SHUT_DOWN, said, now, instance_id=news.worker_id)

    def _container(self, news: PublishContainer, now: float) -> None:
        attempts = news.container.attempts
        last = attempts[-1] if attempts else None
        if last is None or last.outcome is not AttemptOutcome.PREEMPTED:
            return
        if self._once.is_new(last.id):
            why = last.reason.message if last.reason is not None else "others come first"
            self._note(
                DecisionKind.MADE_WAY,
                f"{news.container.id} made way on {last.instance_id}: {why}",
                now,
                instance_id=last.instance_id,
                container_id=news.container.id,
            )

    def _note(self, kind: DecisionKind, said: str, now: float, **about: str) -> None:
        self._count += 1
        self._kept.append(Decision(number=self._count, at=now, kind=kind, message=said, **about))


def _named(payer: Payer) -> str:
    """Return for whom an instance is bought, in words."""
    names = [
        f"{payer.job_name}" if payer.job_name else "",
        f"of {payer.user}" if payer.user else "",
        f"in {payer.project}" if payer.project else "",
    ]
    return " ".join(each for each in names if each) or "nobody in particular"

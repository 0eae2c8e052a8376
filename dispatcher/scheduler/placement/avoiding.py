"""Room where a container was lost, or could not run: it is the last that it is given; pure.

On an instance that is broken in a way that its trial does not show (`pool.trials`) it would be
lost again, as often as it may be. So it is as if the instances that a class avoids
(`ClassKey.avoided`) were busy: another is created for it, or it waits for one of the others, if
none may be. While there is room where it was lost it keeps nobody waiting for that. Nor does it
wait for ever, since the others may be busy for days.

Where no other can hold it and none may be created, or when it has been patient for long enough
(`restarts.returns_at`), it is tried again where it was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from longshore.dispatcher.scheduler.placement.fleet import Slot
from longshore.dispatcher.state.queue import ClassKey


def present(key: ClassKey, slots: Mapping[str, Slot]) -> list[str]:
    """Return which of the instances that a class avoids are among some, in order."""
    return [slot_id for slot_id in key.avoided if slot_id in slots]


def has_others(key: ClassKey, slots: Mapping[str, Slot], types: Iterable[str]) -> bool:
    """Return whether some instance that a class does not avoid could hold one of it, if empty.

    `types` are the names of those whose instances could.
    """
    names = frozenset(types)
    return any(s.type.name in names and s.id not in key.avoided for s in slots.values())

"""What listings say: the machines' own addresses, and now and then something that is not so."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import assert_never
from xml.etree.ElementTree import Element

from tests.ec2_bed import answers
from tests.ec2_bed.faults import Kind
from tests.ec2_bed.machines import Machines

CUT_TOKEN = "of-a-page-that-cannot-be-had"  # noqa: S105 - it names a page


class Listings:
    """Remembers what was launched and shown, so that a listing can be behind the truth."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._lock = threading.Lock()
        self._first_tags: dict[str, dict[str, str]] = {}
        self._last_seen: dict[str, Element] = {}

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._first_tags.clear()
            self._last_seen.clear()

    def launched(self, instance: Element) -> None:
        """Remember the tags that an instance was launched with."""
        with self._lock:
            self._first_tags[answers.text(instance, "instanceId")] = answers.tags(instance)

    def moved(self, answer: Element) -> Element:
        """Give each instance of an answer the address of its machine; returns `answer`."""
        for _, instance in answers.instances(answer):
            machine = self._machines.get(answers.text(instance, "instanceId"))
            if machine is None:
                continue
            answers.set_text(instance, "privateIpAddress", machine.address)
            if answers.text(instance, "ipAddress"):
                answers.set_text(instance, "ipAddress", machine.address)
        return answer

    def seen(self, listing: Element) -> None:
        """Remember what a listing shows."""
        with self._lock:
            for reservation, instance in answers.instances(listing):
                if answers.text(instance, "instanceState/name") == "running":
                    instance_id = answers.text(instance, "instanceId")
                    self._last_seen[instance_id] = copy.deepcopy(reservation)

    def possible(self, kind: Kind, listing: Element, query: Mapping[str, str]) -> bool:
        """Return whether a listing can be behind the truth in this way."""
        with self._lock:
            match kind:
                case Kind.LACKS_NEW | Kind.LACKS_ALL:
                    return bool(self._lacked(kind, listing, query))
                case Kind.SHOWS_GONE:
                    return bool(self._gone(query))
                case Kind.STALE_TAGS:
                    return bool(self._changed(listing))
                case Kind.TWICE:
                    return any(True for _ in answers.instances(listing))
                case Kind.CUT:
                    return True
                case _:
                    return False

    def falsify(self, kind: Kind, listing: Element, query: Mapping[str, str]) -> None:
        """Let a listing be behind the truth; it must be possible."""
        group = answers.reservations(listing)
        with self._lock:
            match kind:
                case Kind.LACKS_NEW | Kind.LACKS_ALL:
                    for reservation, _ in self._lacked(kind, listing, query):
                        group.remove(reservation)
                case Kind.SHOWS_GONE:
                    group.extend(copy.deepcopy(self._gone(query)[:1]))
                case Kind.STALE_TAGS:
                    for instance in self._changed(listing):
                        first = self._first_tags[answers.text(instance, "instanceId")]
                        answers.set_tags(instance, first)
                case Kind.TWICE:
                    group.extend(copy.deepcopy(list(group)))
                case Kind.CUT:
                    answers.set_text(listing, "nextToken", CUT_TOKEN)
                case (
                    Kind.ERROR
                    | Kind.ERROR_AFTER
                    | Kind.LATE_ANSWER
                    | Kind.LOST_ANSWER
                    | Kind.LOST_REQUEST
                ):
                    raise AssertionError(f"{kind} is nothing that a listing says")
                case _:
                    assert_never(kind)

    def _lacked(
        self, kind: Kind, listing: Element, query: Mapping[str, str]
    ) -> list[tuple[Element, Element]]:
        """Return what a listing that is behind the truth does not tell of."""
        if kind is Kind.LACKS_NEW:
            return self._never_shown(listing)
        # What is asked for by its id is no listing.
        return [] if "InstanceId.1" in query else list(answers.instances(listing))

    def _never_shown(self, listing: Element) -> list[tuple[Element, Element]]:
        return [
            (reservation, instance)
            for reservation, instance in answers.instances(listing)
            if answers.text(instance, "instanceId") not in self._last_seen
            and answers.text(instance, "instanceState/name") in ("pending", "running")
        ]

    def _changed(self, listing: Element) -> list[Element]:
        return [
            instance
            for _, instance in answers.instances(listing)
            if answers.tags(instance)
            != self._first_tags.get(answers.text(instance, "instanceId"), answers.tags(instance))
        ]

    def _gone(self, query: Mapping[str, str]) -> list[Element]:
        """Return the reservations that a listing with these filters has shown and that have ended,
        the last first."""
        running = set(self._machines.running())
        return [
            reservation
            for instance_id, reservation in reversed(self._last_seen.items())
            if instance_id not in running and _tagged(reservation, query)
        ]


def _tagged(reservation: Element, query: Mapping[str, str]) -> bool:
    """Return whether the instances of a reservation carry the tags that a query filters by."""
    names = {
        name.removesuffix(".Name"): value.removeprefix("tag:")
        for name, value in query.items()
        if name.startswith("Filter.") and name.endswith(".Name") and value.startswith("tag:")
    }
    wanted = {key: query.get(f"{prefix}.Value.1", "") for prefix, key in names.items()}
    return all(
        wanted.items() <= answers.tags(instance).items()
        for instance in reservation.iter()
        if instance.find(f"{{{answers.NAMESPACE}}}instanceId") is not None
    )

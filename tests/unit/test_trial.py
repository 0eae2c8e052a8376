"""The copy of an engine on which a job is tried: all of it, and nothing of the engine's own."""

from __future__ import annotations

import itertools
import re
import types
from collections import Counter, deque
from collections.abc import Callable, Collection

import pytest

from longshore.dispatcher.domain.messages import Event, Submitted, Woken
from longshore.dispatcher.engine import fork as trial_module
from longshore.dispatcher.engine.fork import trial_of
from longshore.drivers.errors import BugError
from longshore.pool.messages import CreateInstance
from longshore.pool.timers import Timers
from tests.job_samples import make_job, make_task
from tests.rigs.elastic_jobs import elastic, elastic_job, essential
from tests.rigs.engine import Rig
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.state_digest import digest_of, false_values_in, shared_by


@pytest.fixture
def rig() -> Rig:
    """Return an engine that knows of something of every kind."""
    rig = DaemonRig(make_type(1), make_type(4), pool=LONG)
    rig.submit_daemon(daemon())
    rig.submit(*(make_container(number, cpus=number % 3 + 1) for number in range(1, 6)))
    rig.advance(60)
    rig.submit_job(*elastic_job(50, essential(2, "e"), elastic(2)))
    task = make_task("a", size=4, max_running=2, not_before=rig.now + 60)
    rig.submit_job(*make_job(51, task, make_task("b", after=("j-51/a",))))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(9, cpus=4), make_container(10, cpus=4, priority=0))
    return rig


def test_a_trial_is_as_the_engine_and_shares_nothing_that_can_change(rig: Rig) -> None:
    before = digest_of(rig.engine)
    trial = trial_of(rig.engine)
    trial.check()
    assert shared_by(rig.engine, trial) == []
    assert shared_by(rig.engine, rig.engine) != [], "or the test sees nothing"
    # What only counts begins anew in a trial, so that a trial of it is what it is to be like.
    assert digest_of(trial) == digest_of(trial_of(trial))
    assert digest_of(rig.engine) == before


def test_what_is_done_to_a_trial_the_engine_would_do_and_knows_nothing_of(rig: Rig) -> None:
    before, names = digest_of(rig.engine), repr((rig._numbers, rig._container_numbers))
    events: list[Event] = [Submitted(containers=(make_container(20, cpus=0.2),)), Woken()]
    trial = trial_of(rig.engine)
    tried = [trial.handle(event, rig.now) for event in events]
    assert digest_of(rig.engine) == before
    assert repr((rig._numbers, rig._container_numbers)) == names
    done = [rig.engine.handle(event, rig.now) for event in events]
    assert without_tokens(done) == without_tokens(tried)
    assert "SaveContainer" in repr(tried), "or nothing was decided"


def without_tokens(commands: object) -> str:
    return re.sub(r"(token|trial)-\d+", "TOKEN", repr(commands))


def test_each_trial_takes_from_outside_what_the_other_does(rig: Rig) -> None:
    one, other = trial_of(rig.engine), trial_of(rig.engine)
    takes: list[Callable[[], object]] = [
        one.pool.new_token,
        one.pool.new_secret,
        one.pool.dice,
        one.new_container,
    ]
    others = [other.pool.new_token, other.pool.new_secret, other.pool.dice, other.new_container]
    assert [take() for take in takes] == [take() for take in others]
    assert one.pool.new_token() != one.pool.new_token()
    assert one.new_container() != one.new_container()


def test_no_value_of_an_engine_holds_anything_that_can_change(rig: Rig) -> None:
    """So they may be shared; settings, which do hold mappings, are never changed."""
    assert false_values_in(rig.engine) == set()


def test_whoever_shared_something_shares_its_copy(rig: Rig) -> None:
    trial = trial_of(rig.engine)
    assert trial.scheduling.pool.workers is trial.pool.workers
    assert trial.table is trial.scheduling.table
    assert trial.table.unreleased._changes is trial.table.changes
    assert trial.table.containers.keys() == rig.engine.table.containers.keys()
    for container_id, container in trial.table.containers.items():
        assert container is rig.engine.table.containers[container_id], "values are shared"


def test_no_copy_looks_at_each_container_that_waits(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it holds the engine up for longer than a pass does, which goes by classes."""
    rig.submit(*(make_container(number, cpus=4) for number in range(100, 1100)))
    looked_at: list[int] = []
    genuine = trial_module._are_values

    def counting(things: Collection[object]) -> bool:
        looked_at.append(len(things))
        return genuine(things)

    monkeypatch.setattr(trial_module, "_are_values", counting)
    trial = trial_of(rig.engine)
    assert max(looked_at) < 1000
    assert len(trial.table.queue) > 1000
    assert shared_by(rig.engine, trial) == []


class Odd:
    """Anything of ours."""


class Listed(list[int]):
    """Something of which it is not known what else there is to it."""


@pytest.mark.parametrize(
    "odd",
    [
        itertools.count(),
        {}.values(),
        iter([1]),
        bytearray(),
        Listed(),
        {Odd()},
        {Odd(): 1},
        [].append,
        types.SimpleNamespace(),
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_what_it_is_not_known_how_to_copy_is_an_error(rig: Rig, odd: object) -> None:
    rig.engine.pool.odd = odd  # type: ignore[attr-defined]  # something new in the engine
    with pytest.raises(BugError, match="trial"):
        trial_of(rig.engine)


def test_what_can_change_is_copied_however_deep_it_lies(rig: Rig) -> None:
    inner, timers = Odd(), Timers()
    held = {
        "a": [({"b": deque([inner])}, 1)],
        "c": Counter({"x": 1}),
        "d": (("e", [timers]),),
        "f": inner,
        "g": lambda: inner,
    }
    rig.engine.pool.odd = held  # type: ignore[attr-defined]  # something new in the engine
    found = trial_of(rig.engine).pool.odd  # type: ignore[attr-defined]  # as above
    copied = found["f"]
    assert isinstance(copied, Odd)
    assert copied is not inner
    assert found["a"][0][0]["b"][0] is copied
    assert found["g"]() is copied
    assert found["c"] == Counter({"x": 1})
    assert found["c"] is not held["c"]
    assert found["d"][0][1][0] is not timers
    assert shared_by(rig.engine, trial_of(rig.engine)) == []

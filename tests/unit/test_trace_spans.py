"""Which spans follow from what is recorded: names, times, ids and what is in none of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Container,
    ContainerState,
    Reason,
)
from longshore.dispatcher.domain.ledger import (
    CLUSTER,
    OF_INSTANCE,
    BilledState,
    InstanceBill,
    Interval,
)
from longshore.dispatcher.domain.trace_context import parent_of, trace_parent, within
from longshore.dispatcher.traces.spans import InstanceFacts, SpanMaker, SpanRecord
from longshore.drivers.billing import AS_USED
from tests.samples import make_container

MAKER = SpanMaker(store="s-1")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
KEPT = "hunter2"


def tried(number: int, **changes: object) -> Attempt:
    attempt = Attempt(
        id=f"c-1-{number}",
        container_id="c-1",
        number=number,
        instance_id="i-1",
        instance_type="t1",
        price_usd_per_hour=Decimal(1),
        created_at=100.0 * number,
        started_at=100.0 * number + 2,
        finished_at=100.0 * number + 50,
        outcome=AttemptOutcome.SUCCEEDED,
        exit_code=0,
    )
    return replace(attempt, **changes)  # type: ignore[arg-type]  # fields of Attempt


def ended(*attempts: Attempt, state: ContainerState = ContainerState.SUCCEEDED) -> Container:
    return replace(
        make_container(1), created_at=10.0, finished_at=400.0, state=state, attempts=attempts
    )


def times(spans: list[SpanRecord]) -> list[tuple[str, float, float]]:
    return [(each.name, each.start_ns / 1e9, each.end_ns / 1e9) for each in spans]


def of(container: Container, after: int = 0, maker: SpanMaker = MAKER) -> list[SpanRecord]:
    return list(maker.of_container(container, after=after))


def story(**changes: object) -> InstanceFacts:
    bill = InstanceBill(
        instance_id="i-1",
        type_name="t1",
        provider_type="m5.large",
        preemptible=True,
        nusd_per_hour=1,
        payer=CLUSTER,
        created_ms=1000,
        rule=AS_USED,
        running_ms=3000,
        ready_ms=9000,
        gone_ms=60_000,
    )
    spans = (
        (BilledState.PENDING, 1000, 3000),
        (BilledState.BOOTING, 3000, 9000),
        (BilledState.EMPTY, 9000, 20_000),
        (BilledState.ROOM, 20_000, 60_000),
    )
    states = [
        Interval(
            instance_id="i-1",
            holder=OF_INSTANCE,
            from_ms=since,
            until_ms=until,
            state=state,
            share=Fraction(1),
        )
        for state, since, until in spans
    ]
    return InstanceFacts(bill=replace(bill, **changes), states=states)  # type: ignore[arg-type]  # fields of a bill


def test_a_container_is_a_trace_from_its_submission_to_its_end() -> None:
    pulled = tried(2, pulling_since=203.0, pulled_at=210.0)
    failed = tried(1, outcome=AttemptOutcome.LOST, started_at=None, exit_code=None)
    spans = of(ended(failed, pulled))
    assert times(spans) == [
        ("wait", 10, 100),
        ("start", 100, 150),
        ("wait", 150, 200),
        ("start", 200, 202),
        ("stage", 203, 210),
        ("run", 210, 250),
        ("submit", 10, 10),
        ("container", 10, 400),
    ]
    root = spans[-1]
    assert {each.context.trace_id for each in spans} == {root.context.trace_id}
    assert {each.parent_id for each in spans[:-1]} == {root.context.span_id}
    assert root.parent_id is None
    assert len({each.context.span_id for each in spans}) == len(spans)
    assert [each.name for each in spans if each.has_failed] == ["start"]
    assert spans[5].link == MAKER.instance_root("i-1")
    assert spans[5].attributes == {
        "longshore.container.id": "c-1",
        "longshore.attempt.id": "c-1-2",
        "longshore.attempt.number": 2,
        "longshore.attempt.outcome": "succeeded",
        "host.id": "i-1",
        "host.type": "t1",
        "process.exit.code": 0,
    }


def test_what_was_told_is_not_told_again_and_what_goes_on_not_yet() -> None:
    first = tried(1, outcome=AttemptOutcome.FAILED)
    open_ = tried(2, outcome=None, finished_at=None)
    going_on = replace(ended(first, open_), state=ContainerState.RUNNING, finished_at=None)
    assert [each.name for each in of(going_on)] == ["wait", "start", "run"]
    assert of(going_on, after=1) == []
    assert [each.name for each in of(ended(first, tried(2)), after=1)] == [
        *("wait", "start", "run"),
        *("submit", "container"),
    ]


def test_what_never_had_a_place_has_waited_to_its_end() -> None:
    spans = of(ended(state=ContainerState.CANCELLED))
    assert times(spans) == [("submit", 10, 10), ("wait", 10, 400), ("container", 10, 400)]


def test_an_image_that_was_still_fetched_is_the_last_there_is() -> None:
    spans = of(ended(tried(1, pulling_since=103.0, outcome=AttemptOutcome.FAILED)))
    assert times(spans)[:3] == [("wait", 10, 100), ("start", 100, 102), ("stage", 103, 150)]
    assert [each.name for each in spans if each.has_failed] == ["stage"]


def test_a_clock_that_was_set_back_makes_no_span_end_before_it_began() -> None:
    odd = tried(1, created_at=5.0, started_at=4.0, finished_at=3.0)
    assert all(each.end_ns >= each.start_ns for each in of(ended(odd)))


def test_ids_are_the_same_in_each_process_and_others_in_another_store() -> None:
    container = ended(tried(1))
    assert of(container) == of(container, maker=SpanMaker(store="s-1"))
    others = of(container, maker=SpanMaker(store="s-2"))
    ids = {each.context.span_id for each in of(container)}
    assert not ids & {each.context.span_id for each in others}


def test_the_trace_of_who_submitted_it_goes_on() -> None:
    container = ended(tried(1))
    inside = replace(container, spec=within(container.spec, PARENT))
    spans = of(inside)
    assert {each.context.trace_id for each in spans} == {0x0AF7651916CD43DD8448EB211C80319C}
    assert spans[-1].parent_id == 0xB7AD6B7169203331
    unsampled = replace(container, spec=within(container.spec, PARENT[:-1] + "0"))
    assert of(unsampled) == []
    assert of(inside, maker=SpanMaker(store="s-1", sample_ratio=0.0)) == spans


def test_a_part_of_the_traces_that_begin_here_is_recorded_whole() -> None:
    maker = SpanMaker(store="s-1", sample_ratio=0.25)
    made = [replace(ended(tried(1)), id=f"c-{n}") for n in range(400)]
    counts = [len(of(each, maker=maker)) for each in made]
    assert set(counts) == {0, 5}
    assert 60 <= sum(count > 0 for count in counts) <= 140


def test_a_header_that_is_none_is_ignored_and_a_variable_of_ones_own_stays() -> None:
    spec = make_container(1).spec
    for wrong in ("", "x", PARENT[:-1], f"ff{PARENT[2:]}", f"{PARENT}-x", PARENT.upper()):
        assert within(spec, wrong) is spec, wrong
    assert trace_parent(f"00-{'0' * 32}-b7ad6b7169203331-01") is None
    assert trace_parent(f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01") is None
    later = trace_parent(f"01{PARENT[2:]}-more")
    assert str(later) == PARENT
    own = replace(spec, env=(("TRACEPARENT", PARENT),))
    assert within(own, PARENT.replace("-b7", "-c7")) is own
    assert str(parent_of(own)) == PARENT
    sealed = replace(spec, sealed_env=(("TRACEPARENT", "x"),))
    assert within(sealed, PARENT) is sealed


def test_nothing_that_may_be_secret_is_in_a_span() -> None:
    said = Reason(code="exit_code", message=f"sh: --password={KEPT}: not found")
    attempt = tried(1, outcome=AttemptOutcome.FAILED, reason=said, warning=KEPT)
    container = ended(attempt, state=ContainerState.FAILED)
    spec = replace(
        container.spec,
        command=("login", KEPT),
        entrypoint=(KEPT,),
        env=(("KEY", KEPT),),
        sealed_env=(("SEALED", KEPT),),
        labels=(("label", KEPT),),
    )
    spans = of(replace(container, spec=spec, reason=said))
    assert KEPT not in repr(spans)
    assert spans[-1].attributes["error.type"] == "exit_code"
    assert spans[-1].has_failed


def test_an_instance_is_created_boots_and_is_what_it_is() -> None:
    assert times(list(MAKER.of_ready(story()))) == [("create", 1, 3), ("boot", 3, 9)]
    spans = list(MAKER.of_gone(story()))
    assert times(spans) == [("empty", 9, 20), ("room", 20, 60), ("instance", 1, 60)]
    root = spans[-1]
    assert root.context == MAKER.instance_root("i-1")
    assert {each.parent_id for each in spans[:-1]} == {root.context.span_id}
    assert root.attributes["host.type"] == "m5.large"
    assert not root.has_failed


def test_an_instance_that_was_never_ready_has_failed() -> None:
    spans = list(MAKER.of_gone(story(ready_ms=None)))
    assert times(spans)[:2] == [("create", 1, 3), ("boot", 3, 60)]
    assert [each.name for each in spans if each.has_failed] == ["boot", "instance"]
    never_ran = list(MAKER.of_gone(story(running_ms=None, ready_ms=None)))
    assert times(never_ran)[0] == ("create", 1, 60)
    assert never_ran[0].has_failed


def test_an_instance_that_changes_all_the_time_has_a_bounded_number_of_spans() -> None:
    whole = story()
    changes = [replace(whole.states[2], from_ms=9000 + n, until_ms=9001 + n) for n in range(1500)]
    spans = list(MAKER.of_gone(replace(whole, states=changes)))
    assert len(spans) == 1001
    assert spans[-1].attributes["longshore.states_left_out"] == 500

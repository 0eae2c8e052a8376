"""Which types are left out when there are many, and that nothing is dearer for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from longshore.dispatcher.domain.containers import Constraints, Placement, Profile
from longshore.dispatcher.domain.feasibility import eligible_types
from longshore.dispatcher.scheduler.batch.plan import plan
from longshore.dispatcher.scheduler.placement.fleet import PackingPolicy
from longshore.dispatcher.scheduler.placement.snapshot import Plan
from longshore.dispatcher.scheduler.scale_up.dominated import worthwhile
from longshore.dispatcher.scheduler.scale_up.solve import Item, Option
from longshore.dispatcher.state.queue import Queue
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.holds import CreateBlockKind, Scope
from tests.packing_cases import optimum, random_case
from tests.rigs.planner import make_create_block, make_limits, make_view
from tests.samples import GIB, make_container, make_type

ONE = Resources(cpu_millis=1000, memory_bytes=GIB)
SMALL, LARGE = make_type(2, name="small", price="0.2"), make_type(4, name="large", price="0.2")
DEAR = make_type(2, name="dear", price="0.3")
MANY = [make_type(2, name=f"n{n:02}", price=f"0.{300 + n}") for n in range(30)]


def options(*types: InstanceType, need: Resources = ONE) -> list[Option]:
    return [Option(type=type_, need=need) for type_ in types]


def worth(*classes: list[Option], limited: tuple[str, ...] = ()) -> set[str]:
    return worthwhile(classes, may_replace=lambda type_: type_.name not in limited)


def test_what_costs_more_and_has_no_more_room_is_left_out() -> None:
    assert worth(options(SMALL, DEAR)) == {"small"}
    assert worth(options(SMALL, make_type(4, price="0.3"))) == {"small", "t4"}


def test_at_equal_prices_the_smaller_is_taken_where_it_does_so_it_stays() -> None:
    assert worth(options(SMALL, LARGE)) == {"small", "large"}


def test_a_type_stays_for_a_class_that_may_not_go_to_the_better_one() -> None:
    assert worth(options(SMALL, DEAR), options(DEAR)) == {"small", "dear"}
    assert worth(options(SMALL, DEAR), options(SMALL)) == {"small"}


def test_a_type_of_which_there_are_only_so_many_replaces_nothing() -> None:
    assert worth(options(SMALL, DEAR), limited=("small",)) == {"small", "dear"}


def test_only_what_is_wanted_is_compared() -> None:
    licensed = replace(
        DEAR, resources=replace(DEAR.resources, gpus=1, disk_bytes=GIB, custom=(("licence", 2),))
    )
    assert worth(options(SMALL, licensed)) == {"small"}
    for more in ({"gpus": 1}, {"disk_bytes": 1}, {"custom": (("licence", 1),)}):
        wanted = options(licensed, need=replace(ONE, **more))
        assert worth(options(SMALL, licensed), wanted) == {"small", "dear"}
        both = replace(SMALL, name="both", resources=licensed.resources)
        wanted = options(both, licensed, need=replace(ONE, **more))
        assert worth(options(both, licensed), wanted) == {"both"}


def test_what_is_needed_less_of_there_stays() -> None:
    elsewhere = Option(type=DEAR, need=Resources(cpu_millis=500, memory_bytes=GIB))
    assert worth([*options(SMALL), elsewhere]) == {"small", "dear"}
    assert worth([elsewhere, *options(make_type(2, price="0.4"))]) == {"dear", "t2"}


def test_the_cheapest_solution_is_none_the_dearer() -> None:
    left_out = 0
    for seed in range(400):
        items = random_case(seed)
        kept = worth(*(list(item.options) for item in items))
        left_out += len({o.type.name for item in items for o in item.options} - kept)
        fewer = [
            Item(
                index=item.index,
                count=item.count,
                options=tuple(option for option in item.options if option.type.name in kept),
            )
            for item in items
        ]
        assert all(item.options for item in fewer)
        assert optimum(fewer) == optimum(items), seed
    assert left_out > 100, "else this says nothing"


# ---- in a pass -----------------------------------------------------------------------------------


def decide(*, only_on: tuple[str, ...] = (), **limits: object) -> Plan:
    """Return the plan for four containers of two cpus, each of which fills an instance."""
    queue = Queue(lambda k: eligible_types(MANY, k.resources, k.constraints, max_price_factor=9))
    for number in range(4):
        queue.add(make_container(number, cpus=2))
    if only_on:
        constraints = Constraints(instance_types=only_on)
        queue.add(make_container(9, cpus=2, constraints=constraints))
    rules = PackingPolicy(
        placement=Placement.PACKED, profile=Profile.OPTIMIZE_UTILIZATION, max_containers=9
    )
    of_pass = make_limits(instances=0, max_instances=99, **limits)  # type: ignore[arg-type]  # by name
    return plan(make_view(queue, [], of_pass, rules))


def bought(decided: Plan) -> Counter[str]:
    return Counter(slot.type.name for slot in decided.creates)


def test_the_cheapest_of_many_is_bought_and_what_one_class_alone_may_go_to() -> None:
    assert bought(decide()) == {"n00": 4}
    assert bought(decide(only_on=("n07", "n20"))) == {"n00": 4, "n07": 1}


def test_of_many_the_next_is_bought_while_the_cheapest_is_short() -> None:
    assert bought(decide(short=("n00", "n01"))) == {"n02": 4}


def test_of_many_the_next_is_bought_while_one_of_the_cheapest_is_tried() -> None:
    short = make_create_block(CreateBlockKind.CAPACITY, "none left", "n00", until=None)
    decided = decide(trials={"n00": {Scope(type_name="n00"): short}})
    assert bought(decided) == {"n00": 1, "n01": 3}

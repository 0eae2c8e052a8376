"""What a job would come to, as it is answered."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from longshore.dispatcher.api.answers import usd, wait_answer
from longshore.dispatcher.api.job_answers import first_launch
from longshore.dispatcher.api.wire import WaitAnswer
from longshore.dispatcher.domain.jobs import Schedule
from longshore.dispatcher.service.dry_run_model import JobPlan


class PlannedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How many containers would be started, replaced, changed as they run, ended, and so on.

    `migrate` are those that end since their instance drains, `preempt` those of others that make
    way. Of a system or sysbatch job `place` and `update` count those too that have to wait, and
    `later` says how many these are; of others `later` are those that wait for their turn, for
    others, or for a time, and `blocked` those without room.
    """

    place: int
    update: int
    in_place: int
    stop: int
    migrate: int
    ignore: int
    lost: int
    preempt: int
    blocked: int
    later: int


class PlannedCreateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Instances of one type that would be created."""

    instance_type: str
    number: int
    price_per_hour: Decimal


class PriceChangeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Between how many US dollars more all instances would cost an hour."""

    least: Decimal
    most: Decimal


class PlannedStepAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done on one instance.

    `instance` is "" for one that is to be created, and for what gets no place.
    """

    instance: str
    action: str
    detail: str


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done for a job as soon as it is submitted; nothing of it is done.

    `steps` are the first of them, and `steps_left_out` says how many more there are. Of a periodic
    or parameterized job nothing starts then: `of_run` says that one run is planned as if it were
    launched now, and `next_launch` when the schedule launches the first, null for never.
    """

    changes: PlannedChanges
    creates: tuple[PlannedCreateAnswer, ...]
    price_change_per_hour: PriceChangeAnswer
    waiting: tuple[WaitAnswer, ...]
    steps: tuple[PlannedStepAnswer, ...]
    steps_left_out: int
    of_run: bool
    next_launch: str | None


def plan_answer(plan: JobPlan, schedule: Schedule | None, now: float | None) -> PlanAnswer:
    """Return a plan as it is answered; `schedule` is its job's.

    `now` is in seconds since the epoch, None where nobody knows.
    """
    counts = plan.counts
    return PlanAnswer(
        changes=PlannedChanges(
            place=counts.place,
            update=counts.update,
            in_place=counts.in_place,
            stop=counts.stop,
            migrate=counts.migrate,
            ignore=counts.ignore,
            lost=counts.lost,
            preempt=counts.preempt,
            blocked=counts.blocked,
            later=counts.later,
        ),
        creates=tuple(
            PlannedCreateAnswer(
                instance_type=each.type_name,
                number=each.number,
                price_per_hour=usd(each.price_usd_per_hour),
            )
            for each in plan.creates
        ),
        price_change_per_hour=PriceChangeAnswer(
            least=usd(plan.least_usd_per_hour), most=usd(plan.most_usd_per_hour)
        ),
        waiting=tuple(answer for each in plan.waiting if (answer := wait_answer(each)) is not None),
        steps=tuple(
            PlannedStepAnswer(instance=each.instance_id, action=each.action, detail=each.detail)
            for each in plan.steps
        ),
        steps_left_out=plan.steps_left_out,
        of_run=plan.of_run,
        next_launch=first_launch(schedule, now),
    )

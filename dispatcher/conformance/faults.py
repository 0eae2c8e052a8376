"""Checks that take trouble, which only a test bed can make: each error for its cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.conformance.harness import Bench
from longshore.dispatcher.conformance.model import Bed, Cause, Nonconformity, NotShown
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a driver raises for a cause."""

    #: The calls that raise it.
    calls: tuple[str, ...]
    #: It is one of these, with `scope` if that is not None.
    errors: tuple[type[CloudError], ...]
    #: What to do about another answer.
    remedy: str
    scope: ErrorScope | None = None


EXPECTED = {
    Cause.THROTTLED: Expected(
        calls=("create", "listing"),
        errors=(RateLimitError,),
        remedy="raise RateLimitError, with the time that the cloud tells to wait",
    ),
    Cause.QUOTA_OF_GROUP: Expected(
        calls=("create",),
        errors=(QuotaError,),
        scope=ErrorScope.GROUP,
        remedy="raise QuotaError, with scope GROUP",
    ),
    Cause.QUOTA_OF_ACCOUNT: Expected(
        calls=("create",),
        errors=(QuotaError,),
        scope=ErrorScope.ALL,
        remedy="raise QuotaError with scope ALL, or less important containers take each free place",
    ),
    Cause.SHORT_OF_TYPE: Expected(
        calls=("create",),
        errors=(CapacityError,),
        scope=ErrorScope.TYPE,
        remedy="raise CapacityError, with scope TYPE",
    ),
    Cause.SHORT_OF_ALL: Expected(
        calls=("create",),
        errors=(CapacityError,),
        scope=ErrorScope.ALL,
        remedy="raise CapacityError with scope ALL, or each type is tried in vain",
    ),
    Cause.BAD_CREDENTIALS: Expected(
        calls=("create", "listing"),
        errors=(CloudAuthError,),
        remedy="raise CloudAuthError, which tells the operator",
    ),
    Cause.SERVER_ERROR: Expected(
        calls=("create", "listing"),
        errors=(CloudError, AmbiguousResult),
        remedy="raise CloudError, or AmbiguousResult for a create that may have been carried out",
    ),
    Cause.CUT_LISTING: Expected(
        calls=("listing",),
        errors=(CloudError, RateLimitError),
        remedy="raise the error: what an incomplete list lacks is taken for gone",
    ),
}


def error_check(cause: Cause) -> Callable[[Bench], None]:
    """Return the check that a cause has its error."""

    def check(bench: Bench) -> None:
        expected, bed = EXPECTED[cause], bed_for(bench, cause)
        if cause is Cause.CUT_LISTING:
            bench.first_listed()
        bench_calls: dict[str, Callable[[], object]] = {
            "create": lambda: bench.create(patient=False),
            "listing": lambda: list(bench.set.instances({CLUSTER_TAG: bench.cluster})),
        }
        if "create" in expected.calls:
            bench.make_room()
        with bed.causing(cause):
            for name in expected.calls:
                _expect(name, bench_calls[name], cause, expected)

    check.__doc__ = f"When {cause.value}, the driver raises what that is."
    return check


def check_lost_answer(bench: Bench) -> None:
    """A lost answer leaves it open whether there is an instance; its token finds out."""
    bed = bed_for(bench, Cause.LOST_ANSWER)
    bench.make_room()
    wish = bench.wish()
    try:
        with bed.causing(Cause.LOST_ANSWER):
            bench.create(wish)
    except AmbiguousResult:
        told = True
    except CloudError as error:
        raise Nonconformity(
            f"the lost answer to a create call is told as {type(error).__name__}: {error}",
            "raise AmbiguousResult: the instance may be there, and costs money",
        ) from error
    else:
        told = False
    again = bench.create(wish)
    try:
        bench.await_listed(again.id)
        with_token = {each.id for each in bench.ours() if each.tags.get(TOKEN_TAG) == wish.token}
        if with_token - {again.id}:
            raise Nonconformity(
                f"after a lost answer{'' if told else ', which was not told,'} the same token "
                f"made one more: {', '.join(sorted(with_token))}",
                "hand the token to the cloud, or look for it before creating",
            )
    finally:
        bench.destroy_now(again.instance)


def check_duplicates(bench: Bench) -> None:
    """Where a listing repeats an instance, each object of it is as good as the other."""
    bed = bed_for(bench, Cause.DUPLICATES)
    with bench.own() as subject:
        bench.await_listed(subject.id)
        with bed.causing(Cause.DUPLICATES):
            shown = [each for each in bench.ours() if each.id == subject.id]
        if not shown:
            raise Nonconformity(
                f"{subject.id}, listed twice by the cloud, is not listed", "list it"
            )
        if any(each.tags != shown[0].tags or each.address != shown[0].address for each in shown):
            raise Nonconformity(f"two objects of {subject.id} differ", "read both from the cloud")
        for each in shown:
            bench.patiently(each.destroy)
        bench.await_gone(subject.id)


def bed_for(bench: Bench, cause: Cause) -> Bed:
    """Return the test bed, if it can make this trouble; else raise `NotShown`."""
    bed = bench.trial.bed
    if bed is None or cause not in bed.causes:
        raise NotShown("the test bed cannot make this trouble")
    return bed


def _expect(name: str, call: Callable[[], object], cause: Cause, expected: Expected) -> None:
    try:
        call()
    except InstanceNotFound as error:
        raise Nonconformity(
            f"a {name} call raises InstanceNotFound ({error}) when {cause.value}", expected.remedy
        ) from error
    except CloudError as error:
        if type(error) not in expected.errors:
            raise Nonconformity(
                f"a {name} call raises {type(error).__name__} ({error}) when {cause.value}",
                expected.remedy,
            ) from error
        scope = getattr(error, "scope", None)
        if expected.scope is not None and scope is not expected.scope:
            raise Nonconformity(
                f"the {type(error).__name__} of a {name} call reaches as far as "
                f"{getattr(scope, 'value', scope)} when {cause.value}",
                expected.remedy,
            ) from error
        return
    raise Nonconformity(f"a {name} call succeeds when {cause.value}", expected.remedy)

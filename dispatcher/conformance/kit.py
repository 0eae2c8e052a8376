"""The kit that every driver must pass: `run` makes each check of `CHECKS` on a `Trial`.

A check has a name, a sentence, and what it needs: something that the driver claims
(`Capability`), something that it does not claim, or trouble that only a test bed can make
(`Cause`, `ForeignInstances`). What cannot be had is `NOT_SHOWN` with the reason, never passed. What
is claimed and not there fails, and so does what is there and not claimed.

Most checks share one instance, which is created once and destroyed by the check `destroy`; the
others make some of their own, so that a run takes about ten in all and never more than three at
once. Everything that is made carries a cluster tag of this run alone, and at the end, also after
an exception or Ctrl-C, all that carries it is destroyed: `Report.left` names what could not be.
Nothing else is ever touched.

`longshore driver test` runs the kit on a real account, `dispatcher.conformance.pytest_plugin` in
the tests of a driver; `dispatcher.conformance.trial` makes the `Trial`, with the SSH of
`dispatcher.conformance.shell`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from longshore.dispatcher.conformance import billing, calls, claims, faults, machine
from longshore.dispatcher.conformance.harness import Bench
from longshore.dispatcher.conformance.model import (
    Bed,
    Cause,
    ForeignInstances,
    Markets,
    Nonconformity,
    Notices,
    NotShown,
    Outcome,
    Patience,
    RemoteShell,
    Report,
    Result,
    Shell,
    Trial,
)
from longshore.drivers.errors import ConfigError, LongshoreError
from longshore.drivers.registry import Capability

__all__ = [
    "CHECKS",
    "Bed",
    "Cause",
    "Check",
    "Conformance",
    "ForeignInstances",
    "Markets",
    "Nonconformity",
    "NotShown",
    "Notices",
    "Outcome",
    "Patience",
    "RemoteShell",
    "Report",
    "Result",
    "Shell",
    "Trial",
    "check_named",
    "run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check, and for which drivers and beds it is shown; None and False ask for nothing."""

    name: str
    #: Returns a note or nothing, or raises `Nonconformity` or `NotShown`.
    look: Callable[[Bench], str | None]
    #: A capability that the driver must claim.
    needs: Capability | None = None
    #: One that it must not claim.
    lacks: Capability | None = None
    #: The trouble that the bed must be able to make.
    cause: Cause | None = None
    #: Whether it needs a bed, whichever that is.
    on_bed: bool = False
    #: Whether it destroys the shared instance.
    ends_first: bool = False

    @property
    def sentence(self) -> str:
        """Return what it shows, as one sentence."""
        return (self.look.__doc__ or "").strip()


def _error(name: str, cause: Cause) -> Check:
    return Check(name=name, look=faults.error_check(cause), cause=cause)


CHECKS: tuple[Check, ...] = (
    Check(name="registration", look=claims.check_registration),
    Check(name="parameters", look=claims.check_parameters),
    Check(name="capabilities", look=claims.check_capabilities),
    Check(name="no-preemptible", look=claims.check_no_preemptible, lacks=Capability.PREEMPTIBLE),
    Check(name="quota-groups", look=claims.check_quota_groups, needs=Capability.QUOTA_GROUPS),
    Check(name="prices", look=claims.check_prices, needs=Capability.PRICES),
    Check(name="offers", look=claims.check_offers, needs=Capability.OFFERS),
    Check(name="billing-rule", look=billing.check_rule, needs=Capability.BILLING),
    # The shared instance, from its creation ...
    Check(name="create", look=calls.check_create),
    Check(name="listed", look=calls.check_listed),
    Check(name="zone-prices", look=claims.check_zone_prices, needs=Capability.PRICES),
    Check(name="boot", look=machine.check_boot),
    Check(name="init-first", look=machine.check_init_first),
    Check(name="host-key-proof", look=machine.check_secret),
    Check(name="host-key-verdict", look=machine.check_verdicts, needs=Capability.HOST_KEYS),
    Check(name="no-host-key-verdict", look=machine.check_no_verdicts, lacks=Capability.HOST_KEYS),
    Check(name="command", look=machine.check_command),
    Check(name="boot-probe", look=machine.check_boot_probe),
    Check(name="stranger", look=machine.check_stranger),
    Check(
        name="interruption-watch", look=machine.check_watch, needs=Capability.INTERRUPTION_NOTICES
    ),
    Check(name="filter", look=calls.check_filter),
    Check(name="set-tags", look=calls.check_set_tags),
    Check(name="tag-values", look=calls.check_tag_values),
    Check(name="stale-object", look=calls.check_stale_object),
    Check(name="threads", look=calls.check_threads),
    Check(name="same-token", look=calls.check_same_token, needs=Capability.IDEMPOTENT_CREATE),
    Check(name="other-set", look=calls.check_other_set, needs=Capability.OUTLIVES_PROCESS),
    Check(name="only-one", look=calls.check_only_one, lacks=Capability.MANY_INSTANCES),
    Check(name="own-command", look=machine.check_own_command),
    # ... to its end.
    Check(name="destroy", look=calls.check_destroy, ends_first=True),
    Check(name="destroy-again", look=calls.check_destroy_again),
    Check(name="unknown-id", look=calls.check_unknown_id),
    Check(name="find", look=calls.check_find, needs=Capability.FINDS),
    Check(name="leftovers", look=calls.check_leftovers, needs=Capability.LEFTOVERS),
    # Each with instances of its own.
    Check(name="destroy-early", look=calls.check_destroy_early),
    Check(
        name="one-token-at-once",
        look=calls.check_one_token_at_once,
        needs=Capability.IDEMPOTENT_CREATE,
    ),
    Check(name="many-at-once", look=calls.check_many_at_once, needs=Capability.MANY_INSTANCES),
    Check(name="other-cluster", look=calls.check_other_cluster, needs=Capability.MANY_INSTANCES),
    Check(name="foreign", look=calls.check_foreign, on_bed=True),
    Check(name="preemptible", look=claims.check_preemptible, needs=Capability.PREEMPTIBLE),
    Check(name="billing", look=billing.check_times, needs=Capability.BILLING),
    Check(name="power-off", look=machine.check_power_off, needs=Capability.POWER_OFF),
    # Trouble.
    Check(
        name="lost-answer",
        look=faults.check_lost_answer,
        needs=Capability.IDEMPOTENT_CREATE,
        cause=Cause.LOST_ANSWER,
    ),
    Check(name="duplicates", look=faults.check_duplicates, cause=Cause.DUPLICATES),
    _error("throttled", Cause.THROTTLED),
    _error("quota-of-group", Cause.QUOTA_OF_GROUP),
    _error("quota-of-account", Cause.QUOTA_OF_ACCOUNT),
    _error("short-of-type", Cause.SHORT_OF_TYPE),
    _error("short-of-all", Cause.SHORT_OF_ALL),
    _error("bad-credentials", Cause.BAD_CREDENTIALS),
    _error("server-error", Cause.SERVER_ERROR),
    _error("cut-listing", Cause.CUT_LISTING),
)


def check_named(name: str) -> Check:
    """Return a check by its name; raises `ConfigError` when there is none."""
    for check in CHECKS:
        if check.name == name:
            return check
    known = ", ".join(each.name for each in CHECKS)
    raise ConfigError([("check", f"there is no check {name!r}; use one of {known}")])


class Conformance:
    """One run of the kit, for a `with`: what the checks made is destroyed at its end.

    Used on one thread. Entering it makes the instance set, and raises what the driver's `make`
    raises. After it, `left` names what could not be destroyed, a line each.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.left: tuple[str, ...] = ()
        self._bench = Bench(trial)
        self._clear = False

    @property
    def cluster(self) -> str:
        """Return the cluster tag of all that this run makes."""
        return self._bench.cluster

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self._clear:
                self.clear_up()
        finally:
            self._bench.close()

    def clear_up(self) -> None:
        """Destroy what the checks made, and set `left`; if that is interrupted, the end does it."""
        self.left = self._bench.clear_up()
        self._clear = True

    def show(self, check: Check) -> Result:
        """Make one check and return what came of it; only `BaseException` of others escapes."""
        self._clear = False
        if check.ends_first:
            self._bench.pause()
        began = self._bench.now()
        why = self._obstacle(check)
        outcome, remedy, note = Outcome.NOT_SHOWN, "", ""
        if not why:
            try:
                note, outcome = check.look(self._bench) or "", Outcome.PASSED
            except NotShown as reason:
                why = str(reason)
            except Nonconformity as error:
                outcome, why, remedy = Outcome.FAILED, error.what, error.remedy
            except LongshoreError as error:
                outcome, why = Outcome.FAILED, f"it raises {type(error).__name__}: {error}"
                remedy = "look at the cloud's own word for it, and at the driver's parameters"
            except Exception as error:  # noqa: BLE001 - a driver may raise anything; it is told
                outcome, why = Outcome.FAILED, f"it raises {type(error).__name__}: {error}"
                remedy = "raise a CloudError of drivers.errors: nothing else says what happened"
        return Result(
            name=check.name,
            outcome=outcome,
            took_s=self._bench.now() - began,
            why=why,
            remedy=remedy,
            note=note,
        )

    def report(self, results: Sequence[Result]) -> Report:
        """Return the report of these results; call it when the `with` is over."""
        return Report(
            driver=self.trial.info.name,
            cluster=self.cluster,
            results=tuple(results),
            left=self.left,
        )

    def _obstacle(self, check: Check) -> str:
        """Return why a check cannot be made, "" when it can."""
        claimed, bed = self.trial.info.capabilities, self.trial.bed
        if check.needs is not None and check.needs not in claimed:
            return f"the driver does not claim {check.needs.value}"
        if check.lacks is not None and check.lacks in claimed:
            return f"the driver claims {check.lacks.value}"
        if (check.on_bed or check.cause is not None) and bed is None:
            return "it takes a test bed: no real account makes such trouble on demand"
        if check.cause is not None and bed is not None and check.cause not in bed.causes:
            return f"this test bed cannot do that: {check.cause.value}"
        return ""


def run(
    trial: Trial,
    *,
    only: Sequence[Check] = CHECKS,
    tell: Callable[[Result], None] = lambda _: None,
) -> Report:
    """Make the checks in order and return the report; `tell` hears of each as it is made.

    Nothing is left behind, whatever escapes from here: `KeyboardInterrupt`, what `tell` raises, and
    what the driver's `make` raises (`ConfigError`, `CloudError`).
    """
    results: list[Result] = []
    with Conformance(trial) as conformance:
        for check in only:
            results.append(conformance.show(check))
            tell(results[-1])
    return conformance.report(results)

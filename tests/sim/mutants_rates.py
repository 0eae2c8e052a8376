"""Defects in the rates of calls and probes, and in the holds of listings and destroys."""

from __future__ import annotations

from tests.sim.planting import Mutant

RATES_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="failed listings do not wait",
        guard="a listing that fails is repeated only when its hold ends",
        fault="failing listings",
        where="pool.delays:CallHold.failed",
        old=(
            "self.until = max(self.until, now + rate_limited_s(error, max(0, self._failures - 1)))"
        ),
        new="self.until = now",
    ),
    Mutant(
        name="failed listings never double",
        guard="listings that fail in a row wait for twice as long",
        fault="failing listings",
        where="pool.delays:CallHold.failed",
        old="self._failures += 1",
        new="pass",
    ),
    Mutant(
        name="listings during a hold",
        guard="no listing during a hold",
        fault="a throttled API",
        where="pool.gates:CloudGate._held_until",
        old="return self.listings.until if kind is ListInstances else self.changes.until",
        new="return -inf if kind is ListInstances else self.changes.until",
    ),
    Mutant(
        name="destroys during a hold",
        guard="no destroy and no tags during a hold",
        fault="a throttled API",
        where="pool.gates:CloudGate._held_until",
        old="return self.listings.until if kind is ListInstances else self.changes.until",
        new="return self.listings.until if kind is ListInstances else -inf",
    ),
    Mutant(
        name="limited destroys do not hold",
        guard="a limited destroy holds destroys and tags",
        fault="a throttled API",
        where="pool.idle:on_destroy_failed",
        old="core.cloud_gate.changes.failed(event.error, now)",
        new="pass",
    ),
    Mutant(
        name="limited tags do not hold",
        guard="limited tags hold destroys and tags",
        fault="a throttled API",
        where="pool.idle:on_tags_failed",
        old="core.cloud_gate.changes.failed(event.error, now)",
        new="pass",
    ),
    Mutant(
        name="no rate of cloud calls",
        guard="all calls of the cloud share max_cloud_ops_per_second",
        fault="a low rate",
        where="pool.gates:TokenBucket.take",
        old="if now < self._next_at:",
        new="if False:",
    ),
    Mutant(
        name="a burst of two seconds",
        guard="one second's worth of calls may be used at once",
        fault="a low rate",
        where="pool.gates:TokenBucket.__init__",
        old="(per_second - 1.0) * self._interval_s",
        new="(2 * per_second - 1.0) * self._interval_s",
    ),
    Mutant(
        name="creates take no token",
        guard="creates share the rate of cloud calls",
        fault="a low rate",
        where="pool.gates:CloudGate.take_for_create",
        old="if not self._bucket.take(now):",
        new="if False:",
    ),
    Mutant(
        name="the planner ignores the rate",
        guard="the planner is told how many creates there are tokens for",
        fault="a low rate",
        where="pool.gates:CloudGate.creates_left",
        old="return self._bucket.ready(now, most)",
        new="return most",
    ),
    Mutant(
        name="no rate of probes",
        guard="probes share max_probes_per_second",
        fault="many instances",
        where="pool.gates:ProbeGate.take",
        old="return self._bucket.take(now)",
        new="return True",
    ),
    Mutant(
        name="destroys overtake for ever",
        guard="what has waited longest goes before younger calls of other kinds",
        fault="a low rate",
        where="pool.gates:CloudGate._next_kind",
        old="(next(iter(waiting.values()))[0] + _PATIENCE_S[kind], order, kind)",
        new="(_PATIENCE_S[kind], order, kind)",
    ),
    Mutant(
        name="nobody wakes for the next token",
        guard="what waits for a token is sent when there is one",
        fault="a low rate",
        where="pool.core:PoolCore.release_cloud",
        old="self.timers.arm(TimerKind.CLOUD, self.cloud_gate.next_at(now))",
        new="pass",
    ),
    Mutant(
        name="too many creates at once",
        guard="max_concurrent_creates",
        fault="slow create calls",
        where="pool.launching:creates_left",
        old="max(0, core.settings.max_concurrent_creates - len(types_in_flight(core)))",
        new="core.settings.max_concurrent_creates",
    ),
)

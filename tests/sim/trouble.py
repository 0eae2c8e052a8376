"""What goes wrong in a run: with sessions, instances, limits, the store and the dispatcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from longshore.dispatcher.domain.messages import Overloaded, StraysDecided
from longshore.drivers.errors import ErrorScope
from longshore.drivers.interface import Power
from longshore.drivers.simulated.model import Machine
from longshore.pool.model import AttemptExit, ExitKind, IdleBehavior
from tests.sim.hosts import Host
from tests.sim.links import VirtualSession
from tests.sim.process import Crashed
from tests.sim.timeline import Dice
from tests.sim.truth import TAG

if TYPE_CHECKING:
    from tests.sim.world import World

CRASH_WITHIN_STEPS = 8
CRASH_AFTER_S = 30.0
LONGEST_PARTITION_S = 60.0
UNREACHABLE_SHARE = 0.45
LONGEST_STOP_S = 200.0
START_S = (5.0, 30.0)
"""How long an instance that was stopped takes to boot once somebody starts it again."""

FORGING = "3"
"""How the ids of instances end on which a job forges that the cloud takes them back."""
TAKEN_BACK_AT = "2026-01-31T23:59:59Z"
"""What an instance says of its end: nothing depends on the time, so that none is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hidden:
    """An instance that listings lack, and the host key that it had when that began."""

    since: float
    until: float
    key: str


class Trouble:
    """Plans a run's faults and carries them out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = Dice(world.options.seed, "trouble")
        self._flicker_dice = Dice(world.options.seed, "flickering")
        self._hidden: dict[str, _Hidden] = {}
        self._foreign = Dice(world.options.seed, "foreign strays happen")
        self._stops = Dice(world.options.seed, "stops")
        self._calm = False
        self.crash_in_steps = 0

    def step(self) -> None:
        """Crash here, between two commands, if that is planned."""
        if self.crash_in_steps:
            self.crash_in_steps -= 1
            if not self.crash_in_steps:
                raise Crashed("between two commands")

    def broke(self, host: Host) -> None:
        """Let an instance say that it is broken, and some be mended later."""
        self._say_broken(host, "a disk fails")
        if self._dice.falls(0.3):
            self._world.timeline.after(
                self._dice.between(5, 200), lambda: self._say_broken(host, "")
            )

    def booted(self, host: Host) -> None:
        """Let some jobs of instances that no cloud takes back forge that it does."""
        if host.machine.id.endswith(FORGING) and not host.machine.type.preemptible:
            host.interruption = TAKEN_BACK_AT

    def announced(self, host: Host) -> None:
        """Let an instance say that its cloud takes it back."""
        host.interruption = TAKEN_BACK_AT
        if isinstance(host.listener, VirtualSession) and host.up:
            host.listener.interrupted()

    def _say_broken(self, host: Host, message: str) -> None:
        host.broken = message
        if isinstance(host.listener, VirtualSession) and host.up:
            host.listener.broken(message)

    def _any_host(self) -> Host | None:
        up = [
            self._world.hosts[key] for key in sorted(self._world.hosts) if self._world.hosts[key].up
        ]
        return up[self._dice.whole(0, len(up) - 1)] if up else None

    def _drop(self) -> None:
        host = self._any_host()
        if host is not None:
            host.drop("connection reset")

    def _flap(self) -> None:
        """Let one instance's session drop again and again."""
        host = self._any_host()
        when = self._world.timeline.now
        for _ in range(self._dice.whole(3, 12) if host is not None else 0):
            assert host is not None
            self._world.timeline.at(when, partial(host.drop, "connection reset"))
            when += self._dice.between(0.5, 4)

    def _crash_runner(self) -> None:
        host = self._any_host()
        if host is not None:
            host.crash_runner()

    def _rekey(self) -> None:
        host = self._any_host()
        if host is not None:
            host.rekeyed += 1
            host.drop("its SSH server began anew")

    def _reboot(self) -> None:
        host = self._any_host()
        if host is not None and not host.dead:
            host.reboot(self._dice.between(5, 30))

    def _die(self) -> None:
        host = self._any_host()
        if host is not None:
            host.die()
            self._silence(host)

    def _stray(self) -> None:
        """Let an instance run, or have run, what nobody asked for, by any name."""
        host = self._any_host()
        if host is None:
            return
        attempts = self._world.store.attempts
        running = [a for a, where in self._world.truth.live.items() if where is not host]
        elsewhere = sorted(a for a in attempts if attempts[a].instance_id != host.machine.id)
        elsewhere = sorted(running) or elsewhere
        name = f"stray-{self._dice.whole(0, 1_000_000)}"
        if elsewhere and self._dice.falls(0.5):
            name = elsewhere[self._dice.whole(0, len(elsewhere) - 1)]
        ended = AttemptExit(kind=ExitKind.EXITED, code=0) if self._dice.falls(0.5) else None
        host.stray(name, ended)

    def _foreign_stray(self) -> None:
        """Let an instance run what another store has started, until an admin has decided."""
        up = [host for _, host in sorted(self._world.hosts.items()) if host.up]
        if not up:
            return
        host = up[self._foreign.whole(0, len(up) - 1)]
        name = f"another-{self._foreign.whole(0, 1_000_000)}-1"
        host.stray_of_another(name)
        host.drop("the dispatcher of another store has gone")
        kill, later_s = self._foreign.falls(0.5), self._foreign.between(60, 600)
        self._world.timeline.after(later_s, lambda: self._decide(host, name, kill=kill))

    def _decide(self, host: Host, name: str, *, kill: bool) -> None:
        """Let an admin decide, again and again until the process is gone."""
        process = host.processes.get(name)
        if process is None or process.gone or host.machine.ended:
            return
        process.killed_by_admin = kill
        if self._world.process is not None:
            decided = StraysDecided(worker_id=host.machine.id, attempt_ids=(name,), adopt=not kill)
            self._world.process.post(decided)
        if not kill:
            self._world.timeline.after(60.0, lambda: host.end_stray(name))
        self._world.timeline.after(90.0, lambda: self._decide(host, name, kill=kill))

    def _silence(self, host: Host) -> None:
        if isinstance(host.listener, VirtualSession):
            host.listener.silent()

    def _freeze(self) -> None:
        host = self._any_host()
        if host is not None:
            longest_s = self._world.options.hosts.longest_freeze_s
            until = self._world.timeline.now + self._dice.between(1, longest_s)
            host.frozen_until = max(host.frozen_until, until)
            self._silence(host)

    def _stop(self) -> None:
        """Let somebody stop an instance, which its session shows or not, and start it again or not.

        Unless it is gone by then.
        """
        dice, world = self._stops, self._world
        up = [host for _, host in sorted(world.hosts.items()) if host.up and not host.dead]
        if not up:
            return
        host = up[dice.whole(0, len(up) - 1)]
        host.stop()
        if dice.falls(0.5):
            host.drop("connection reset")
        else:
            self._silence(host)
        comes_back, stopped_s = dice.falls(0.5), dice.between(1, LONGEST_STOP_S)
        boots_s = dice.between(*START_S)

        def start() -> None:
            if not host.machine.ending and not host.machine.ended:
                host.go_on(boots_s)

        if comes_back:
            world.timeline.after(stopped_s, start)

    def power_of(self, machine: Machine) -> Power:
        """Return how a listing says that an instance stands, which is wrong now and then."""
        if self._world.hosts[machine.id].stopped:
            return Power.STOPPED
        wrongly = not self._calm and self._stops.falls(self._world.options.wrongly_stopped)
        return Power.STOPPED if wrongly else Power.ON

    def _partition(self) -> None:
        """Let the way to an instance be gone, which is noticed at once, and come back."""
        host = self._any_host()
        if host is not None:
            until = self._world.timeline.now + self._dice.between(1, LONGEST_PARTITION_S)
            host.drop("no route")
            host.frozen_until = max(host.frozen_until, until)

    def _plan_crash(self) -> None:
        self.crash_in_steps = self._dice.whole(1, CRASH_WITHIN_STEPS)
        self._world.timeline.after(CRASH_AFTER_S, self._crash_if_idle)

    def _crash_if_idle(self) -> None:
        if self.crash_in_steps:
            self._world.crash("with nothing to do")

    def _overload(self) -> None:
        """Let the store say that it is overloaded, now and then several times in a row."""
        for number in range(self._dice.whole(1, 3)):
            self._world.timeline.after(number * 1.5, self._say_overloaded)

    def _say_overloaded(self) -> None:
        process = self._world.process
        if process is not None:
            process.post(Overloaded(source="store", message="commits take too long"))

    def _meddle(self) -> None:
        host = self._any_host()
        if host is not None:
            behaviors = [behavior.value for behavior in IdleBehavior]
            host.machine.tags[TAG] = behaviors[self._dice.whole(0, len(behaviors) - 1)]
            self._world.conduct.wanted.pop(host.machine.id, None)
            self._world.conduct.hold_ends.meddled(host.machine.id)

    def _flicker(self) -> None:
        """Let listings lack an instance for a while, or all, and their sessions drop, or not."""
        dice, world = self._flicker_dice, self._world
        up = [world.hosts[key] for key in sorted(world.hosts) if world.hosts[key].up]
        if not up:
            return
        several = dice.falls(0.3)
        chosen = up if several else [up[dice.whole(0, len(up) - 1)]]
        until = world.timeline.now + dice.between(1, world.options.longest_flicker_s)
        crashes, drops = dice.falls(0.25), dice.falls(0.7)
        for host in chosen:
            hidden = _Hidden(since=world.timeline.now, until=until, key=host.key)
            self._hidden.setdefault(host.machine.id, hidden)
            if drops and not crashes:
                host.drop("connection reset")
                if dice.falls(0.5):
                    away_s = dice.between(1, LONGEST_PARTITION_S)
                    host.frozen_until = max(host.frozen_until, world.timeline.now + away_s)
        if crashes:
            self._plan_crash()

    def hides(self, machine: Machine) -> bool:
        """Return whether listings lack an instance that is there, and the cloud does not know it.

        For nearly half of `gone_after_s` whatever else befalls it; for longer only as long as it
        can be reached: of what neither answers nor is listed nobody could tell that it is there.
        """
        hidden, now = self._hidden.get(machine.id), self._world.timeline.now
        if hidden is None:
            return False
        host = self._world.hosts[machine.id]
        short_s = UNREACHABLE_SHARE * self._world.options.pool.gone_after_s
        answers = host.up and not host.dead and host.frozen_until <= now and host.key == hidden.key
        if now < hidden.until and (answers or now < hidden.since + short_s):
            return True
        del self._hidden[machine.id]
        return False

    def show_all(self) -> None:
        """Let listings show all that is there from now on, and as it is."""
        self._hidden.clear()
        self._calm = True

    def _change_limits(self) -> None:
        limits, dice = self._world.cloud.limits, self._dice
        limits.quota = dice.whole(1, 8) if dice.falls(0.5) else 0
        limits.capacity = {"p1": dice.whole(0, 2)} if dice.falls(0.4) else {}
        limits.shortages = {}
        for provider_type in ("p1", "p2", "p2s", "p4"):
            if dice.falls(0.25):
                scopes = list(ErrorScope)
                limits.shortages[provider_type] = scopes[dice.whole(0, len(scopes) - 1)]

    def _forbid(self) -> None:
        """Let the account have none of some quota groups."""
        for group in self._world.options.forbidden:
            self._world.cloud.limits.group_quotas[group] = 0

    def allow_all(self) -> None:
        """Let the account have of those quota groups again of which it may have none."""
        for group in self._world.options.forbidden:
            self._world.cloud.limits.group_quotas.pop(group, None)

    def begin(self, until: float) -> None:
        """Plan everything that goes wrong before `until`."""
        if self._world.options.forbidden:
            self._world.timeline.at(self._world.options.forbidden_from_s, self._forbid)
            self._world.timeline.at(self._world.options.allowed_after_s, self.allow_all)
        hosts, dispatcher = self._world.options.hosts, self._world.options.dispatcher
        plans = (
            (hosts.drops_every_s, self._drop),
            (hosts.flaps_every_s, self._flap),
            (hosts.freezes_every_s, self._freeze),
            (hosts.rekeys_every_s, self._rekey),
            (hosts.runner_crashes_every_s, self._crash_runner),
            (hosts.reboots_every_s, self._reboot),
            (hosts.deaths_every_s, self._die),
            (hosts.strays_every_s, self._stray),
            (dispatcher.crashes_every_s, self._plan_crash),
            (dispatcher.stalls_every_s, self._world.store.stall),
            (dispatcher.overloads_every_s, self._overload),
            (self._world.options.limits_change_every_s, self._change_limits),
            (self._world.options.meddled_every_s, self._meddle),
            (hosts.partitions_every_s, self._partition),
        )
        self._plan(plans, until, self._dice)
        lacking = ((self._world.options.old_flickers_every_s, self._flicker),)
        self._plan(lacking, until, self._flicker_dice)
        foreign = ((hosts.foreign_strays_every_s, self._foreign_stray),)
        self._plan(foreign, until, self._foreign)
        stops = ((self._world.options.stops_every_s, self._stop),)
        self._plan(stops, until, self._stops)

    def _plan(
        self, plans: Sequence[tuple[float, Callable[[], None]]], until: float, dice: Dice
    ) -> None:
        for mean_s, action in plans:
            when = 0.0
            while mean_s > 0 and (when := when + dice.soon(mean_s)) < until:
                self._world.timeline.at(when, action)

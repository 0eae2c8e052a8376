"""What can go wrong on hosts and with the dispatcher, and what users and admins do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFaults:
    """What goes wrong with sessions and on instances: shares, and mean times between faults.

    A mean time of 0 is never. `drops` cut a session, `freezes` silence an instance for up to
    `longest_freeze_s`, `runner_crashes` kill the runner (and, half the time, a supervisor);
    `rekeys` change an instance's host key; the end of a log never comes while the session lives
    for `lost_logs` of attempts; `slow_answers` come after the request's time limit, `repeats` of
    exits are told twice, some starts are `refused` (half of them for a fault of the request), some
    processes are `deaf` to TERM, and some `immortal` even to KILL; some supervisors are
    `lost_supervisors` and leave no exit, some exits are `late_exits`, recorded a while after the
    process is gone; `sick_boots` never pass the boot probe, `broken_boots` say that they are broken
    from the first, `late_addresses` are not known before the boot.

    `reboots` lose all that an instance knows, `deaths` silence it for good, `strays` are processes
    that nobody asked for; `flaps` are many drops in a row, `drops_at_starts` come before the answer
    to a start does; `late_lists` of what runs arrive after later news, `late_orders` to start after
    later probes; `slow_deaths` take a while after the signal, some instances are `refusing` every
    start, some have `wrong_clocks`; `partitions` cut a session and silence the instance at once.

    `foreign_strays` are processes that another store's dispatcher has started: an admin decides.

    Some starts are refused since the instance is `overloaded`. `lost_limits` go down with their
    session. `swallowing` instances end at once what is started there, and run nothing; `unpulling`
    ones do so with what has an image, though their engine works. `smaller` instances have fewer
    cpus, or less memory, than their type says; where there are none, none tells what it has.
    """

    drops_every_s: float = 0.0
    freezes_every_s: float = 0.0
    longest_freeze_s: float = 60.0
    runner_crashes_every_s: float = 0.0
    rekeys_every_s: float = 0.0
    lost_logs: float = 0.0
    slow_answers: float = 0.0
    repeats: float = 0.0
    refused: float = 0.0
    deaf: float = 0.0
    immortal: float = 0.0
    lost_supervisors: float = 0.0
    late_exits: float = 0.0
    sick_boots: float = 0.0
    late_addresses: bool = False
    reboots_every_s: float = 0.0
    deaths_every_s: float = 0.0
    strays_every_s: float = 0.0
    foreign_strays_every_s: float = 0.0
    flaps_every_s: float = 0.0
    drops_at_starts: float = 0.0
    late_lists: float = 0.0
    late_orders: float = 0.0
    slow_deaths: float = 0.0
    refusing: float = 0.0
    wrong_clocks: float = 0.0
    broken_boots: float = 0.0
    partitions_every_s: float = 0.0
    overloaded: float = 0.0
    lost_limits: float = 0.0
    swallowing: float = 0.0
    unpulling: float = 0.0
    smaller: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherFaults:
    """What befalls the dispatcher and its store; mean times of 0 are never.

    `crashes_at_requests` come after what a user asks for is committed and before it is heard,
    `crashes` between two commands, and it stays down for up to `longest_down_s`; the store
    `stalls` for up to `longest_stall_s`, or refuses a commit (`refusals`, a share), which ends the
    process; at a start the wall clock has been set by up to `clock_steps_s` either way. The store
    says that it is overloaded now and then (`overloads`).
    """

    crashes_every_s: float = 0.0
    longest_down_s: float = 30.0
    stalls_every_s: float = 0.0
    longest_stall_s: float = 20.0
    refusals: float = 0.0
    crashes_at_requests: float = 0.0
    clock_steps_s: float = 0.0
    overloads_every_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What users and admins do; mean times of 0 are never.

    `alike` is the share of containers that ask for what the first one of their list does;
    `retrying` of them are tried again when they fail, `supervising` ones submit others, `cpuless`
    ones ask for no cpus, `unnamed` ones leave what they need to the type, `imaged` ones have an
    image.

    `jobs` are submitted, with arrays of up to `longest_array`; `narrow` of these have a limit of
    how many run at once. `depending` of containers and jobs wait for earlier ones, `limited` have a
    time limit, `lenient` a grace period, `postponed` a time before which they do not start. Jobs
    are cancelled, held, released and reprioritised every `job_requests_every_s`. What new ones wait
    for is looked up well before they are committed in `slow_look_ups` of cases.

    `per_instance` jobs run on every instance: `once` of them to their end, the others for ever, of
    whose attempts `restless` ones exit all the same, within `restless_run_s`; `picky` ones are for
    some types only, `sharing` ones ask for no cpus, and `refused_jobs` are at fault themselves at a
    revision, so that every instance refuses their starts. They are revised, held, released,
    reprioritised and cancelled every `per_instance_requests_every_s`.

    `elastic` jobs have essential components and elastic ones; for these `scaling` jobs have
    instances created. Of the components `lasting` ones want no preemptible instance, and of all
    attempts `faulty` ones fail. They, and their members, are held, released, reprioritised and
    cancelled every `elastic_requests_every_s`.

    What a job would come to is asked for every `plans_every_s`. Of admins' holds `timed_holds` have
    an end.
    """

    containers: int = 20
    longest_list: int = 2
    longest_run_s: float = 120.0
    failing: float = 0.2
    cancels_every_s: float = 0.0
    priorities_every_s: float = 0.0
    behaviors_every_s: float = 0.0
    kills_every_s: float = 0.0
    alike: float = 0.0
    retrying: float = 0.0
    supervising: float = 0.0
    cpuless: float = 0.0
    unnamed: float = 0.0
    imaged: float = 0.0
    jobs: int = 0
    longest_array: int = 4
    narrow: float = 0.0
    depending: float = 0.0
    limited: float = 0.0
    lenient: float = 0.0
    postponed: float = 0.0
    job_requests_every_s: float = 0.0
    slow_look_ups: float = 0.0
    per_instance: int = 0
    once: float = 0.0
    sharing: float = 0.15
    picky: float = 0.0
    restless: float = 0.0
    restless_run_s: float = 60.0
    refused_jobs: float = 0.0
    per_instance_requests_every_s: float = 0.0
    elastic: int = 0
    scaling: float = 0.0
    lasting: float = 0.2
    faulty: float = 0.0
    elastic_requests_every_s: float = 0.0
    plans_every_s: float = 0.0
    timed_holds: float = 0.0

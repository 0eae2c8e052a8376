"""What tests of workflows ask of a rig: who runs, who waits and why, and that all of it ends."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import SchedulerSettings
from tests.rigs.engine import Rig
from tests.samples import make_type


def rig(*, most: int = 100) -> Rig:
    """Return a rig whose instances have 8 cpus, `most` of them."""
    return Rig(make_type(8), settings=SchedulerSettings(max_instances=most))


def wait_code(made: Rig, container_id: str) -> str | None:
    reason = made.engine.why_waiting(container_id)
    return None if reason is None else reason.code


def ids(*numbers: int) -> list[str]:
    return [f"c-{number}" for number in numbers]


def in_state(made: Rig, state: str) -> list[str]:
    return [id_ for id_, each in made.states().items() if each == state]


def exit_all(made: Rig, code: int = 0) -> list[str]:
    """Let all that runs end; return what that was."""
    running = in_state(made, "running")
    for container_id in running:
        attempts = made.containers[container_id].attempts
        made.exit(attempts[-1].id, code)
    return running

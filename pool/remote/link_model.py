"""What a link to a worker is told, and what it answers: settings, stages, results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum

from longshore.drivers.errors import RemoteError
from longshore.pool.model import ProbeReport
from longshore.pool.remote.api_relay import NO_API, ApiPort
from longshore.pool.remote.deploy import Bundle
from longshore.pool.remote.ssh_keys import PrivateKey


class ProbeStage(StrEnum):
    """How far a probe got."""

    CONNECT = "connect"
    HOST_KEY = "host_key"
    BOOT = "boot"
    DEPLOY = "deploy"
    LIST = "list"
    TRIAL = "trial"
    ATTACH = "attach"


class ProbeStageError(RemoteError):
    """A probe got no further than `stage`; the pool tries again, or gives the worker up."""

    def __init__(self, stage: ProbeStage, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage
        self.message = message


class StartVerdict(Enum):
    """What is known of a start; UNKNOWN means that the attempt may run."""

    STARTED = "started"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResult:
    """What came of a start, and why it was not STARTED.

    `code` is the runner's word for a refusal ("invalid", "too_large", "spawn", "spool", "engine",
    "epoch", "system"), also of an order that cannot be sent at all, and "rebooted" where it was not
    asked; "" for other verdicts.
    """

    verdict: StartVerdict
    code: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What all links of a dispatcher share. Each timeout bounds one step, not the whole probe."""

    user: str
    private_key: PrivateKey
    cluster: str
    epoch: int
    bundle: Bundle
    engine_json: str
    #: Caps the key exchanges in flight.
    handshakes: threading.Semaphore
    #: Gives the time of `last_contact`; called from any thread.
    clock: Callable[[], float]
    boot_probe_command: str = "true"
    connect_timeout_s: float = 15.0
    command_timeout_s: float = 30.0
    heartbeat_interval_s: float = 5.0
    heartbeat_timeout_s: float = 20.0
    #: An instance that nobody contacts for this long runs `power_off_command`, if there is one.
    orphan_timeout_s: float = 1800.0
    power_off_command: str = ""
    #: The id of the dispatcher's store, "" for none that runners are told.
    store: str = ""
    #: The command that waits on the instance for its cloud's word that it is taken back.
    interruption_watch: str = ""
    #: Who answers what attempts ask of the API from inside.
    api: ApiPort = NO_API


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReady:
    """A worker that is reached: its proven key ("TYPE BASE64"), and what runs on it.

    `boot_error` says why the boot probe failed, "" when it did not or was not asked for,
    `trial_error` why the engine's trial did, None when none was asked for.
    """

    host_key: str
    report: ProbeReport
    boot_error: str = ""
    trial_error: str | None = None

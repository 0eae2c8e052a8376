"""Makes the trial of a driver: the conformance kit with real time, real dice and the pool's SSH."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from longshore.dispatcher.conformance.model import Bed, Patience, Trial
from longshore.dispatcher.conformance.shell import PoolShell
from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import DriverContext, DriverInfo
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link_model import LinkSettings
from longshore.pool.remote.ssh_keys import PrivateKey, new_private_key

_HANDSHAKES = 8


def make_trial(
    info: DriverInfo,
    parameters: msgspec.Struct,
    *,
    instance_type: InstanceType,
    state_dir: Path,
    preemptible_type: InstanceType | None = None,
    other_types: tuple[InstanceType, ...] = (),
    image: str = "",
    bed: Bed | None = None,
    patience: Patience | None = None,
    private_key: PrivateKey | None = None,
    ssh_user: str = "root",
    ssh_port: int = 22,
    engine_json: str = "{}",
    boot_probe_command: str = "true",
    connect_timeout_s: float = 15.0,
    command: str = "",
    pause: Callable[[str, str], None] | None = None,
) -> Trial:
    """Return what `dispatcher.conformance.kit.run` takes.

    `parameters` is a value of `info.parameters`; `state_dir` is for this trial alone, for drivers
    that keep something on disk. `private_key` None is one that is made for this. The rest is as in
    `Trial` and in the configuration; `patience` None is that of a real account.
    """
    waits = patience or Patience()
    settings = LinkSettings(
        user=ssh_user,
        private_key=private_key or new_private_key(),
        cluster="conformance",
        epoch=1,
        bundle=build_runner(),
        engine_json=engine_json,
        handshakes=threading.BoundedSemaphore(_HANDSHAKES),
        clock=time.monotonic,
        boot_probe_command=boot_probe_command,
        connect_timeout_s=connect_timeout_s,
        command_timeout_s=waits.command_timeout_s,
    )
    return Trial(
        info=info,
        parameters=parameters,
        context=DriverContext(
            cluster="conformance", state_dir=state_dir, clock=time.monotonic, ssh_user=ssh_user
        ),
        instance_type=instance_type,
        preemptible_type=preemptible_type,
        other_types=other_types,
        shell=PoolShell(settings, default_port=ssh_port),
        wait=time.sleep,
        epoch_now=time.time,
        new_token=lambda: secrets.token_hex(16),
        image=image,
        bed=bed,
        patience=waits,
        command=command,
        pause=pause,
    )

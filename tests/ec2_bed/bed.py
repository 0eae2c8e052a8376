"""The whole bed: moto, the proxy in front of it, and the machines behind its addresses."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from longshore.drivers.interface import TOKEN_TAG
from tests.ec2_bed.faults import FaultPlan
from tests.ec2_bed.machines import Machines
from tests.ec2_bed.metadata import Metadata
from tests.ec2_bed.moto_process import CREDENTIALS, REGION, MotoProcess
from tests.ec2_bed.proxy import Proxy
from tests.sshd_host import wait_until

_LOOK_EVERY_S = 0.1
NOT_BILLED = ("shutting-down", "terminated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """An instance as moto has it, whatever listings say."""

    id: str
    state: str
    client_token: str
    spot: bool
    subnet: str
    tags: dict[str, str]

    @property
    def billed(self) -> bool:
        """Return whether it costs anything."""
        return self.state not in NOT_BILLED


class Ec2Bed:
    """An EC2 account with `subnets` in two zones, and everything that a driver's parameters name.

    Starting takes a few seconds: share one, and `clear` it between tests. Usable as a context
    manager; `directory` is made when missing.
    """

    def __init__(self, directory: Path, *, page_size: int = 3) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.plan = FaultPlan()
        self.metadata = Metadata()
        self.moto = MotoProcess(directory)
        self.machines = Machines(directory / "machines")
        self.proxy = Proxy(
            self.moto.url,
            plan=self.plan,
            machines=self.machines,
            described=self.metadata,
            page_size=page_size,
        )
        self._cleared: frozenset[str] = frozenset()
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="powered-off machines")
        try:
            self.account = self.moto.client()
            found = self.account.describe_subnets()["Subnets"]
            places = sorted((each["AvailabilityZone"], each["SubnetId"]) for each in found)
            self.zones = tuple(zone for zone, _ in places[:2])
            self.subnets = tuple(subnet for _, subnet in places[:2])
            groups = self.account.describe_security_groups()["SecurityGroups"]
            self.security_group: str = groups[0]["GroupId"]
            registered = self.account.register_image(Name="bed", RootDeviceName="/dev/sda1")
            self.image: str = registered["ImageId"]
            self._watcher.start()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """Return the driver's parameters for this account, as a configuration has them."""
        return {
            "region": REGION,
            "endpoint_url": self.proxy.url,
            **CREDENTIALS,
            "subnets": list(self.subnets),
            "security_groups": [self.security_group],
            "ssh_port": self.machines.port,
            **changes,
        }

    def truth(self) -> list[Truth]:
        """Return every instance that there is or was since the last `clear`, sorted by id."""
        pages = self.account.get_paginator("describe_instances").paginate()
        found = [
            Truth(
                id=each["InstanceId"],
                state=each["State"]["Name"],
                client_token=each.get("ClientToken", ""),
                spot=each.get("InstanceLifecycle") == "spot",
                subnet=each.get("SubnetId", ""),
                tags={tag["Key"]: tag["Value"] for tag in each.get("Tags", [])},
            )
            for page in pages
            for reservation in page["Reservations"]
            for each in reservation["Instances"]
            if each["InstanceId"] not in self._cleared
        ]
        return sorted(found, key=lambda each: each.id)

    def billed(self) -> list[str]:
        """Return the ids of the instances that cost something, sorted."""
        return [each.id for each in self.truth() if each.billed]

    def twins(self) -> dict[str, list[str]]:
        """Return the tokens that made more than one instance, whatever became of them: ours, as the
        tags have them, and those of the calls."""
        made: dict[str, list[str]] = {}
        for each in self.truth():
            made.setdefault(f"call {each.client_token}", []).append(each.id)
            if TOKEN_TAG in each.tags:
                made.setdefault(f"launch {each.tags[TOKEN_TAG]}", []).append(each.id)
        return {token: ids for token, ids in made.items() if len(ids) > 1}

    def take_back(self, instance_id: str) -> None:
        """End an instance as EC2 ends one of the spot market that it needs itself."""
        self.account.terminate_instances(InstanceIds=[instance_id])
        self.machines.end(instance_id)

    def clear(self) -> None:
        """End every instance, and forget what happened; the account stays as it is."""
        self.plan.clear()
        billed = self.billed()
        if billed:
            self.account.terminate_instances(InstanceIds=billed)
        self.machines.end_all()
        wait_until(lambda: not self.billed(), "moto's instances to be gone")
        self._cleared |= {each.id for each in self.truth()}
        self.proxy.forget()

    def close(self) -> None:
        """End everything."""
        self._closing.set()
        if self._watcher.is_alive():
            self._watcher.join()
        self.proxy.close()
        self.machines.close()
        self.moto.stop()

    def _watch(self) -> None:
        """Do what EC2 does with an instance that powers itself off: it is terminated."""
        while not self._closing.wait(_LOOK_EVERY_S):
            for instance_id in self.machines.running():
                machine = self.machines.get(instance_id)
                if machine is not None and machine.powered_off:
                    self.take_back(instance_id)

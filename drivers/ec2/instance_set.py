"""The instances of one account in one region, through boto3."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from longshore.drivers.billing import Billed
from longshore.drivers.ec2.account import Ec2Account, described_in, told_at
from longshore.drivers.ec2.billing import billed_of
from longshore.drivers.ec2.conditions import condition_of, reason_of, state_of
from longshore.drivers.ec2.faults import FAILURES, Judgement, judged
from longshore.drivers.ec2.images import Images
from longshore.drivers.ec2.keys import MISSING, KeyPairs
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.ec2.requests import (
    LISTED_STATES,
    LaunchTarget,
    as_tags,
    image_of,
    listing_filters,
    run_arguments,
    scratch_gib,
    targets,
    uses_instance_store,
)
from longshore.drivers.ec2.user_data import Scratch, Storage, user_data
from longshore.drivers.errors import AmbiguousResult, CloudError, ErrorScope, InstanceNotFound
from longshore.drivers.interface import (
    TOKEN_TAG,
    Condition,
    Existence,
    Found,
    HostKeyVerdict,
    Instance,
    InstanceType,
)
from longshore.drivers.registry import KeyedLock

_PAGE = 1000
_REMEMBERED_TOKENS = 4096
_REACHABLE_STATES = ("pending", "running")
_TERMINATED = "terminated"
_GIB = 2**30
_NARROWEST_FIRST = (ErrorScope.TYPE, ErrorScope.GROUP, ErrorScope.ALL)


class Ec2InstanceSet(Ec2Account):
    """The driver; see `drivers.interface.InstanceSet`. It owns `client`: `close` closes it."""

    def __init__(
        self, client: Any, parameters: Ec2Parameters, *, ssh_user: str, clock: Callable[[], float]
    ) -> None:
        """Speak through boto3's `client`; `clock` tells monotonic seconds."""
        super().__init__(client, parameters, clock=clock)
        self._ssh_user = ssh_user
        self._keys = KeyPairs(client)
        self._images = Images(client)
        self._lock = threading.Lock()
        self._tried: OrderedDict[str, int] = OrderedDict()
        self._turns = KeyedLock()

    def create(
        self,
        *,
        instance_type: InstanceType,
        image: str,
        tags: Mapping[str, str],
        init_command: str,
        public_key: str,
        token: str,
    ) -> Instance:
        """Create an instance in the first placement that has room for it, or return the token's.

        Where nobody knows what came of it, no other placement is tried, and the next call with the
        token begins there.
        """
        booted = image_of(self._parameters, instance_type, image)
        data = user_data(
            init_command=init_command,
            public_key=public_key,
            ssh_user=self._ssh_user,
            scratch=self._scratch(instance_type),
            metadata_for_all=self._parameters.metadata_for_all,
        )

        def launch(placement: LaunchTarget) -> Instance | CloudError:
            return self._launch(
                placement,
                public_key,
                lambda key_name: run_arguments(
                    self._parameters,
                    instance_type,
                    placement,
                    image=image,
                    tags=tags,
                    user_data=data,
                    key_name=key_name,
                    token=token,
                    image_devices=self._images.volume_devices(booted),
                ),
            )

        # Else one call could find room where another with this token has just found none.
        with self._turns.alone(token):
            return self._launched(token, targets(self._parameters, instance_type), launch)

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the instances that carry all of `tags` and are not terminated, sorted by id."""
        found: dict[str, Instance] = {}
        try:
            pages = self._client.get_paginator("describe_instances").paginate(
                Filters=listing_filters(tags), PaginationConfig={"PageSize": _PAGE}
            )
            for page in pages:
                if "Reservations" not in page:
                    # Somebody between us and EC2 answered; "nothing is there" was not said.
                    raise CloudError(
                        "DescribeInstances: the answer does not come from EC2; check that "
                        "region, proxies"
                        " and driver.parameters.endpoint_url are right"
                    )
                now = told_at(page)
                for described in described_in(page):
                    instance = self._view(described, now)
                    # A filter may know older tags than the answer, or read a value as a pattern.
                    if tags.items() <= instance.tags.items():
                        found[instance.id] = instance
        except FAILURES as failure:
            raise judged(failure, call="DescribeInstances", changes=False).error from failure
        return [found[each] for each in sorted(found)]

    def destroy(self, instance_id: str) -> None:
        """Ask EC2 to terminate an instance; `InstanceNotFound` when it does not know it."""
        try:
            self._client.terminate_instances(InstanceIds=[instance_id])
        except FAILURES as failure:
            raise judged(failure, call="TerminateInstances", changes=True).error from failure

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an instance; raises `InstanceNotFound`, also for one that is terminated."""
        try:
            self._client.create_tags(Resources=[instance_id], Tags=as_tags(tags))
            # EC2 takes tags for what has ended, as long as it remembers it.
            answer = self._client.describe_instances(InstanceIds=[instance_id])
        except FAILURES as failure:
            raise judged(failure, call="CreateTags", changes=True).error from failure
        states = {state_of(each) for each in described_in(answer)}
        if not states & {*LISTED_STATES}:
            raise InstanceNotFound(f"CreateTags: {instance_id} is gone")

    def find(self, instance_id: str) -> Found:
        """Return whether EC2 knows an instance as terminated, and why, which it does for an hour.

        It does not know what is too new, or in another region, either: that is no end.
        """
        try:
            answer = self._client.describe_instances(InstanceIds=[instance_id])
        except FAILURES as failure:
            error = judged(failure, call="DescribeInstances", changes=False).error
            if isinstance(error, InstanceNotFound):
                return Found(existence=Existence.UNKNOWN)
            raise error from failure
        known = [each for each in described_in(answer) if each["InstanceId"] == instance_id]
        states = {state_of(each) for each in known}
        if states & {*LISTED_STATES}:
            return Found(existence=Existence.PRESENT)
        if _TERMINATED in states:
            return Found(existence=Existence.GONE, reason=reason_of(known[0]))
        return Found(existence=Existence.UNKNOWN)

    def close(self) -> None:
        """Close the connections; instances go on."""
        self._client.close()

    # ---- creating ---------------------------------------------------------------------------

    def _launched(
        self,
        token: str,
        places: Sequence[LaunchTarget],
        launch: Callable[[LaunchTarget], Instance | CloudError],
    ) -> Instance:
        """Return what is there of a token, or what `launch` makes in the first place that can."""
        order = self._order(token, len(places))
        if order is None:
            found = self._made_of(token)
            if found is not None:
                return found
            order = list(range(len(places)))
        refusals: list[tuple[LaunchTarget, CloudError]] = []
        for number in order:
            placement = places[number]
            self._remember(token, number)
            launched = launch(placement)
            if not isinstance(launched, CloudError):
                return launched
            refusals.append((placement, launched))
        raise _summary(refusals)

    def _order(self, token: str, count: int) -> list[int] | None:
        """Return in which order `count` places are tried for a token, None if we must look first.

        Where a token was used last comes first: EC2 knows it there. With one placement EC2 always
        knows; with several, another process may have used it in any of them.
        """
        with self._lock:
            first = self._tried.get(token)
        if first is None:
            return [0] if count == 1 else None
        return [*range(first, count), *range(first)]

    def _remember(self, token: str, number: int) -> None:
        with self._lock:
            self._tried[token] = number
            self._tried.move_to_end(token)
            if len(self._tried) > _REMEMBERED_TOKENS:
                self._tried.popitem(last=False)

    def _made_of(self, token: str) -> Instance | None:
        return next(iter(self.instances({TOKEN_TAG: token})), None)

    def _launch(
        self, placement: LaunchTarget, public_key: str, arguments: Any
    ) -> Instance | CloudError:
        """Return the new instance, or why another placement may be tried; raises the rest."""
        verdict = Judgement(error=CloudError("not tried"), code=MISSING)
        for _ in range(2):
            key_name = self._keys.name_of(public_key) if self._parameters.key_import else ""
            try:
                answer = self._client.run_instances(**arguments(key_name))
            except FAILURES as failure:
                verdict = judged(failure, call=f"RunInstances in {placement.name}", changes=True)
                if verdict.code == MISSING:
                    # Somebody deleted it since we looked; nothing was launched.
                    self._keys.forget(public_key)
                    continue
                if verdict.elsewhere:
                    return verdict.error
                raise verdict.error from failure
            return self._first_of(answer)
        raise verdict.error

    def _first_of(self, answer: Mapping[str, Any]) -> Instance:
        described = answer.get("Instances") or []
        if not described:
            raise AmbiguousResult("RunInstances: the answer names no instance")
        return self._view(described[0], told_at(answer))

    def _scratch(self, instance_type: InstanceType) -> Scratch:
        directories = self._parameters.scratch.directories
        if uses_instance_store(self._parameters, instance_type):
            return Scratch(
                storage=Storage.STORE,
                size_bytes=instance_type.resources.disk_bytes,
                directories=directories,
            )
        size_gib = scratch_gib(self._parameters, instance_type)
        if not size_gib:
            return Scratch()
        return Scratch(storage=Storage.VOLUME, size_bytes=size_gib * _GIB, directories=directories)

    def _view(self, described: Mapping[str, Any], now: float | None) -> _Ec2Instance:
        kind = "PublicIpAddress" if self._parameters.address == "public" else "PrivateIpAddress"
        # Nobody shall begin anything on what is ending.
        host = described.get(kind, "") if state_of(described) in _REACHABLE_STATES else ""
        return _Ec2Instance(
            id=described["InstanceId"],
            address=f"{host}:{self._parameters.ssh_port}" if host else "",
            tags={each["Key"]: each["Value"] for each in described.get("Tags", [])},
            condition=condition_of(described),
            billed=billed_of(described, now),
            owner=self,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ec2Instance:
    """An instance as it was when it was listed; see `drivers.interface.Instance`."""

    id: str
    address: str
    tags: Mapping[str, str]
    condition: Condition
    billed: Billed
    owner: Ec2InstanceSet = field(repr=False)

    def destroy(self) -> None:
        self.owner.destroy(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.owner.set_tags(self.id, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:  # noqa: ARG002 - EC2 cannot tell
        # The secret in the user data proves the key.
        return HostKeyVerdict.UNKNOWN


def _summary(refusals: Sequence[tuple[LaunchTarget, CloudError]]) -> CloudError:
    """Return the refusal that reaches least far: where one placement lacks, another may have."""
    _, narrowest = min(refusals, key=lambda each: _reach(each[1]))
    return narrowest


def _reach(error: CloudError) -> int:
    return _NARROWEST_FIRST.index(getattr(error, "scope", ErrorScope.ALL))

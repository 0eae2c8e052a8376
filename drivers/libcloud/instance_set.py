"""The instance set: nodes of one cloud account, which are created, listed, marked and ended."""

from __future__ import annotations

import inspect
import ipaddress
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from libcloud.compute.base import Node, NodeDriver
from libcloud.compute.types import NodeState

from longshore.drivers.billing import Billed
from longshore.drivers.errors import AmbiguousResult, CloudError, InstanceNotFound
from longshore.drivers.interface import (
    CLUSTER_TAG,
    Condition,
    HostKeyVerdict,
    Instance,
    InstanceType,
    Power,
)
from longshore.drivers.libcloud import user_data
from longshore.drivers.libcloud.clients import Clients, Sent, Witness
from longshore.drivers.libcloud.faults import (
    fault_of,
    has_failed_since,
    was_never_sent,
    was_refused,
)
from longshore.drivers.libcloud.naming import node_name, tags_in_name
from longshore.drivers.libcloud.parameters import LibcloudParameters
from longshore.drivers.libcloud.providers import NodeRequest, is_name_taken, provider_of
from longshore.drivers.registry import DriverContext, KeyedLock

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_POWERS = {
    NodeState.ERROR: Power.FAILED,
    NodeState.PAUSED: Power.SUSPENDED,
    NodeState.STOPPED: Power.STOPPED,
    NodeState.STOPPING: Power.STOPPING,
    NodeState.SUSPENDED: Power.SUSPENDED,
}


class LibcloudInstanceSet:
    """One account of one cloud; see `drivers.interface.InstanceSet`.

    Raises `ConfigError` when the cloud cannot be used. No request is made before the first call.
    """

    def __init__(self, parameters: LibcloudParameters, context: DriverContext) -> None:
        self._parameters = parameters
        self._cluster = context.cluster
        self._user = context.ssh_user
        self._provider = provider_of(parameters.provider)
        self._clients = Clients(parameters, self._provider, context.state_dir)
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
        """Create a node, unless one of its name is listed: the name is made from the token."""
        booted = image or self._parameters.image
        if not booted:
            raise CloudError("no image is named: set pool.image or driver.parameters.image")
        request = NodeRequest(
            name=node_name(tags.get(CLUSTER_TAG, self._cluster), token),
            size=instance_type.provider_type,
            image=booted,
            user_data=user_data.user_data(
                init_command=init_command, public_key=public_key, user=self._user
            ),
            tags=dict(tags),
        )
        # Two listings at once would miss both.
        with self._turns.alone(request.name):
            return self._called(
                f"create {request.name}", lambda driver: self._created(driver, request, tags)
            )

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List the nodes that carry all of `tags`, by their tags or by their names."""
        found = self._called("list nodes", self._nodes)
        views = (self._view(node, {tags.get(CLUSTER_TAG, self._cluster)}) for node in found)
        return [each for each in views if tags.items() <= each.tags.items()]

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()

    def destroy(self, node: Node) -> None:
        """Ask for a node's end; no error when it is gone."""

        def end(driver: NodeDriver) -> None:
            if not self._provider.destroy(driver, node):
                raise CloudError(f"the cloud does not accept to destroy {node.name}")

        try:
            self._called(f"destroy {node.name}", end, of_instance=True)
        except InstanceNotFound:
            _log.debug("%s is gone already", node.name)

    def set_tags(self, node: Node, tags: Mapping[str, str]) -> None:
        """Set tags of a node; raises `InstanceNotFound`."""
        self._called(
            f"set tags of {node.name}",
            lambda driver: self._provider.set_tags(driver, node, tags),
            of_instance=True,
        )

    def _created(
        self, driver: NodeDriver, request: NodeRequest, tags: Mapping[str, str]
    ) -> Instance:
        witness = Witness()
        with witness.watching(driver):
            node = self._named(driver, request.name)
            if node is None:
                node = self._made(driver, request, witness)
            told = tags if self._tagged(driver, node, tags) else {}
        return self._view(node, {tags.get(CLUSTER_TAG, self._cluster)}, told=told)

    def _made(self, driver: NodeDriver, request: NodeRequest, witness: Witness) -> Node:
        arguments = self._provider.create_arguments(driver, self._parameters, request)
        try:
            inspect.signature(driver.create_node).bind(**arguments)
        except TypeError as error:
            raise CloudError(
                f"Libcloud cannot create a node so: {error}; see driver.parameters.create_options"
            ) from error
        try:
            return driver.create_node(**arguments)
        except Exception as error:
            if is_name_taken(error):
                return self._earlier(driver, request.name)
            raise _verdict(error, witness.sent, request.name) from error

    def _earlier(self, driver: NodeDriver, name: str) -> Node:
        """Return the node that an earlier try made, which the listing before this one lacked."""
        try:
            found = self._named(driver, name)
        except Exception as error:
            raise AmbiguousResult(f"{name} was created before and cannot be listed") from error
        if found is None:
            raise AmbiguousResult(f"{name} was created before and is not listed yet")
        return found

    def _tagged(self, driver: NodeDriver, node: Node, tags: Mapping[str, str]) -> bool:
        """Set the tags that the create call could not carry, and return whether that is done.

        If it fails, the node's name does for the while: the pool writes again what is missing.
        """
        if self._provider.tags_at_create:
            return True
        has = self._provider.tags(node)
        missing = {key: value for key, value in sorted(tags.items()) if key not in has}
        try:
            self._provider.set_tags(driver, node, missing)
        except Exception as error:  # noqa: BLE001 - Libcloud raises anything; the node is there
            fault = str(fault_of(error, doing="set its tags"))
            _log.warning("%s has no tags yet, only its name: %r", node.name, fault)
            return False
        return True

    def _named(self, driver: NodeDriver, name: str) -> Node | None:
        found = [node for node in self._nodes(driver) if node.name == name]
        return min(found, key=lambda node: str(node.id), default=None)

    @staticmethod
    def _nodes(driver: NodeDriver) -> list[Node]:
        """List the nodes that are there, each once."""
        by_id = {
            str(node.id): node for node in driver.list_nodes() if node.state != NodeState.TERMINATED
        }
        return [node for _, node in sorted(by_id.items())]

    def _called(
        self, doing: str, call: Callable[[NodeDriver], Answer], *, of_instance: bool = False
    ) -> Answer:
        """Make a call with a driver of Libcloud's, and raise what our taxonomy has for it."""
        try:
            with self._clients.borrowed() as driver:
                return call(driver)
        except CloudError:
            raise
        except Exception as error:
            raise fault_of(error, doing=doing, of_instance=of_instance) from error

    def _view(
        self, node: Node, clusters: set[str], *, told: Mapping[str, str] | None = None
    ) -> Instance:
        """Return a node as an instance; `told` are the tags of its create call, None later."""
        named = tags_in_name(str(node.name), clusters | {self._cluster})
        return _LibcloudInstance(
            id=str(node.id),
            address=self._address(node),
            tags={**named, **(told or {}), **self._provider.tags(node)},
            condition=_condition_of(node),
            billed=self._provider.billed(node),
            node=node,
            owner=self,
        )

    def _address(self, node: Node) -> str:
        found = node.public_ips if self._parameters.address == "public" else node.private_ips
        addresses = sorted(_addresses(found), key=_by_version)
        if not addresses or node.state != NodeState.RUNNING:
            return ""
        first = addresses[0]
        host = f"[{first}]" if first.version == 6 else str(first)
        return f"{host}:{self._parameters.ssh_port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LibcloudInstance:
    """A node as it was when it was listed; see `drivers.interface.Instance`."""

    id: str
    address: str
    tags: Mapping[str, str]
    condition: Condition
    billed: Billed
    node: Node = field(repr=False)
    owner: LibcloudInstanceSet = field(repr=False)

    def destroy(self) -> None:
        self.owner.destroy(self.node)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.owner.set_tags(self.node, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:  # noqa: ARG002 - no cloud tells it through Libcloud
        return HostKeyVerdict.UNKNOWN


def _condition_of(node: Node) -> Condition:
    """Return how a node stands; why is told by OpenStack alone, of what it could not do."""
    fault = node.extra.get("fault")
    reason = str(fault.get("message", "")) if isinstance(fault, Mapping) else ""
    return Condition(power=_POWERS.get(node.state, Power.ON), reason=reason)


def _verdict(error: Exception, sent: Sent, name: str) -> CloudError:
    """Return what a create that failed so is: a failure, or nobody knows."""
    fault = fault_of(error, doing=f"create {name}")
    match sent:
        case Sent.NOTHING:
            return fault
        case Sent.ASKED | Sent.UNKNOWN if was_refused(error) or was_never_sent(error):
            return fault
        case Sent.ANSWERED if has_failed_since(error):
            return fault
        case _:
            return AmbiguousResult(f"{fault}; the next listing shows whether it was created")


def _addresses(
    told: Iterable[str | None],
) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Yield those that are addresses: one node's odd word must not end the listing of all."""
    for each in told:
        with suppress(ValueError):
            yield ipaddress.ip_address(each or "")


def _by_version(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> tuple[int, str]:
    return address.version, str(address)

"""A Longshore driver for the toy cloud, whose whole API is four calls of JSON over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import SECRET, HostKeyVerdict, Instance, InstanceType
from longshore.drivers.registry import Capability, DriverContext, DriverInfo


class ExampleParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the toy cloud is, and the token of an account; a request may take `timeout_s`."""

    url: str
    token: Annotated[str, SECRET]
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0


_ERRORS: Mapping[str, Callable[[str], CloudError]] = {
    "bad-token": CloudAuthError,
    "no-such-instance": InstanceNotFound,
    "family-limit": lambda text: QuotaError(text, scope=ErrorScope.GROUP),
    "account-limit": lambda text: QuotaError(text, scope=ErrorScope.ALL),
    "short-of-type": lambda text: CapacityError(text, scope=ErrorScope.TYPE),
    "short-of-all": lambda text: CapacityError(text, scope=ErrorScope.ALL),
}


class ExampleInstanceSet:
    """One account of the toy cloud; it keeps nothing, so any thread may call it."""

    def __init__(self, parameters: ExampleParameters) -> None:
        self._parameters = parameters

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
        """Create an instance; the cloud knows a token that it has seen before."""
        wanted = {
            "type": instance_type.provider_type,
            "image": image,
            "tags": dict(tags),
            "boot_script": init_command,
            "login_key": public_key,
            "token": token,
        }
        return self._instance(self._ask("POST", "/instances", wanted, creates=True))

    def instances(self, tags: Mapping[str, str]) -> Sequence[Instance]:
        """List what carries all of `tags`, from every page; a page that fails fails the list."""
        found: dict[str, Instance] = {}
        page = "/instances"
        while page:
            answer = self._ask("GET", page)
            for shown in map(self._instance, answer["instances"]):
                if tags.items() <= shown.tags.items():
                    found[shown.id] = shown
            page = answer["next"]
        return list(found.values())

    def quota_group(self, instance_type: InstanceType) -> str:
        """Return the family of the type: the cloud's limits are one for each."""
        return instance_type.provider_type.partition(".")[0]

    def close(self) -> None:
        """Let go of nothing: each request has a connection of its own."""

    def destroy(self, instance_id: str) -> None:
        """Ask for an instance's end; no error when it is gone."""
        try:
            self._ask("DELETE", f"/instances/{instance_id}")
        except InstanceNotFound:
            return

    def set_tags(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags; the cloud leaves the others as they are."""
        self._ask("PATCH", f"/instances/{instance_id}", {"tags": dict(tags)})

    def host_key(self, instance_id: str) -> str:
        """Return the host key that the cloud has read off the instance, "" before it has one."""
        return str(self._ask("GET", f"/instances/{instance_id}")["host_key"])

    def _instance(self, shown: Mapping[str, Any]) -> Instance:
        return ExampleInstance(
            id=shown["id"], address=shown["address"], tags=shown["tags"], owner=self
        )

    def _ask(self, method: str, path: str, body: object = None, *, creates: bool = False) -> Any:
        request = urllib.request.Request(  # noqa: S310 - `check` lets http addresses pass only
            self._parameters.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._parameters.token}"},
        )
        try:
            with urllib.request.urlopen(  # noqa: S310 - as above
                request, timeout=self._parameters.timeout_s
            ) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                fault = _fault(error)
            doubtful = creates and error.code >= 500 and type(fault) is CloudError
            raise (AmbiguousResult(str(fault)) if doubtful else fault) from error
        except (OSError, ValueError) as error:
            refused = isinstance(getattr(error, "reason", None), ConnectionRefusedError)
            if creates and not refused:
                raise AmbiguousResult(f"no answer to a create: {error}") from error
            raise CloudError(f"the toy cloud does not answer: {error}") from error


def _fault(error: urllib.error.HTTPError) -> CloudError:
    """Return what an answer with an error means: one table, and one way for all else."""
    if error.code == 429:
        told = error.headers.get("Retry-After", "")
        return RateLimitError("too many calls", retry_after_s=float(told) if told else None)
    try:
        code = str(json.load(error)["error"])
    except (OSError, ValueError, LookupError):
        code = ""
    return _ERRORS.get(code, CloudError)(f"the toy cloud answers {error.code} {code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleInstance:
    """An instance as it was when it was listed, and the calls that act on it."""

    id: str
    address: str
    tags: Mapping[str, str]
    owner: ExampleInstanceSet = field(repr=False)

    def destroy(self) -> None:
        self.owner.destroy(self.id)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        self.owner.set_tags(self.id, tags)

    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        known = self.owner.host_key(self.id)
        if not known:
            return HostKeyVerdict.UNKNOWN
        genuine = public_key.split()[:2] == known.split()[:2]
        return HostKeyVerdict.GENUINE if genuine else HostKeyVerdict.WRONG


def _check(parameters: ExampleParameters) -> list[tuple[str, str]]:
    if parameters.url.startswith(("http://", "https://")):
        return []
    return [("url", "is no address: write http://HOST:PORT")]


def _fault_of_type(_: ExampleParameters, instance_type: InstanceType) -> str | None:
    return "is preemptible, which the toy cloud has not" if instance_type.preemptible else None


def _make(parameters: ExampleParameters, _: DriverContext) -> ExampleInstanceSet:
    return ExampleInstanceSet(parameters)


DRIVER = DriverInfo(
    name="example",
    summary="the toy cloud of Longshore's documentation",
    parameters=ExampleParameters,
    make=_make,
    check=_check,
    fault_of_type=_fault_of_type,
    capabilities=frozenset(
        {
            Capability.IDEMPOTENT_CREATE,
            Capability.OUTLIVES_PROCESS,
            Capability.MANY_INSTANCES,
            Capability.HOST_KEYS,
            Capability.QUOTA_GROUPS,
        }
    ),
)

"""From one request that was found to be sound to the specification that is stored."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from operator import itemgetter

from longshore.dispatcher.api.schemas.containers import (
    GpusRequest,
    RetriesRequest,
    RetryOn,
    RunRequest,
    SecretRequest,
    SecretValueRequest,
)
from longshore.dispatcher.api.validate.dependencies import dependencies
from longshore.dispatcher.api.validate.limits import Defaults
from longshore.dispatcher.api.validate.rfc3339 import parse_moment
from longshore.dispatcher.domain.containers import Constraints, ContainerSpec, Preemptible, Retries
from longshore.drivers.interface import Resources
from longshore.pool.model import SecretKind, SecretUse

_NO_RETRIES = RetriesRequest()
_NEVER = Retries()


Seal = Callable[[str, str], str]
"""Encrypts the value of a variable, given its name and the value."""


def specification(request: RunRequest, defaults: Defaults, seal: Seal) -> ContainerSpec:
    """Return what a request asks for, with the defaults of the configuration filled in.

    Secret values are in it as `seal` encrypts them, whose errors it raises. Of what it does not
    name, those dimensions are noted for which some instance type has a default of its own.
    """
    return ContainerSpec(
        name=request.name,
        image=request.image,
        command=tuple(request.command),
        init=request.init,
        entrypoint=None if request.entrypoint is None else tuple(request.entrypoint),
        env=tuple(sorted((k, v) for k, v in request.env.items() if isinstance(v, str))),
        resources=Resources(
            cpu_millis=_given(request.cpus, defaults.cpu_millis),
            memory_bytes=_given(request.memory, defaults.memory_bytes),
            disk_bytes=_given(request.disk, defaults.disk_bytes),
            gpus=gpus_of(request).count,
            custom=tuple(sorted((name, n) for name, n in request.resources.items() if n > 0)),
        ),
        constraints=_constraints(request),
        labels=tuple(sorted(request.labels.items())),
        retry_lost=request.retries.lost,
        retries=_retries(request.retries),
        unnamed=tuple(sorted(set(defaults.type_dimensions) - _named(request))),
        supervisor=request.supervisor,
        api=request.api,
        after=dependencies(request.after),
        not_before=None if request.not_before is None else parse_moment(request.not_before),
        time_limit_s=request.time_limit_s,
        grace_period_s=request.grace_period_s,
        secrets=tuple(map(_secret_use, request.secrets)),
        sealed_env=tuple(
            (name, seal(name, value.secret))
            for name, value in sorted(request.env.items(), key=itemgetter(0))
            if isinstance(value, SecretValueRequest)
        ),
    )


def secret_targets(request: SecretRequest) -> list[tuple[SecretKind, str]]:
    """Return as what a request wants a secret; there is to be one."""
    named = {
        SecretKind.ENV: request.env,
        SecretKind.FILE: request.file,
        SecretKind.REGISTRY: request.registry,
    }
    return [(kind, target) for kind, target in named.items() if target is not None]


def _secret_use(request: SecretRequest) -> SecretUse:
    ((kind, target),) = secret_targets(request)
    return SecretUse(secret=request.name, kind=kind, target=target)


def gpus_of(request: RunRequest) -> GpusRequest:
    """Return the GPUs that a request asks for, none where it names none."""
    match request.gpus:
        case None:
            return GpusRequest(count=0)
        case GpusRequest():
            return request.gpus
        case _:
            return GpusRequest(count=request.gpus)


def _named(request: RunRequest) -> set[str]:
    dimensions = {
        "cpus": request.cpus,
        "memory": request.memory,
        "disk": request.disk,
        "gpus": request.gpus,
    }
    return {name for name, wanted in dimensions.items() if wanted is not None} | {
        *request.resources
    }


def _constraints(request: RunRequest) -> Constraints:
    wanted, gpus = request.constraints, gpus_of(request)
    ceiling = wanted.max_price_per_hour
    return Constraints(
        labels=tuple(sorted(wanted.labels.items())),
        gpu_model=gpus.model,
        gpu_memory_bytes=int(gpus.memory or 0),
        instance_types=tuple(sorted(set(wanted.instance_types))),
        preemptible=Preemptible(wanted.preemptible),
        max_price_usd_per_hour=None if ceiling is None else Decimal(ceiling),
    )


def _retries(wanted: RetriesRequest) -> Retries:
    # Nearly all want none, and a million of them may wait.
    if wanted == _NO_RETRIES:
        return _NEVER
    on = set(wanted.on or ())
    if wanted.exit_codes and RetryOn.FAILED not in on:
        # Who names exit codes means that these are tried again.
        on.add(RetryOn.EXIT_CODE)
    return Retries(
        most=wanted.max,
        on=tuple(sorted(each.value for each in on or {RetryOn.FAILED})),
        exit_codes=tuple(sorted(set(wanted.exit_codes))),
        delay_s=wanted.delay_s,
        first_delay_s=wanted.first_delay_s,
    )


def _given(value: int | None, default: int) -> int:
    return default if value is None else int(value)

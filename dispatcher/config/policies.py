"""Policies as the configuration has them, and those of an admin's own, from installed packages."""

from __future__ import annotations

import re
from decimal import Decimal
from importlib.metadata import entry_points

from longshore.dispatcher.config.model import Config, PolicyConfig
from longshore.dispatcher.domain.policies import OwnPolicy, Policies, Policy
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.input.problems import Problems, did_you_mean, element, member
from longshore.drivers.errors import ConfigError

ENTRY_POINT_GROUP = "longshore.policies"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ALL_BUT_ADMINS = frozenset({Role.USER, Role.LEAD})


def policies_of(config: Config) -> Policies:
    """Return the policies of a configuration that was checked; raises `ConfigError`."""
    rules = tuple(_policy(name, each) for name, each in sorted(config.policies.items()))
    own = tuple((name, _loaded(name, number)) for number, name in enumerate(config.own_policies))
    return Policies(rules=rules, own=own)


def check_policies(config: Config, problems: Problems) -> None:
    """Add what is wrong with the policies to `problems`."""
    for name, each in config.policies.items():
        path = member("policies", name)
        if not _NAME.fullmatch(name):
            said = "has a bad name: use 1 to 63 letters, digits, '.', '_' and '-', no '-' first"
            problems.add(path, said)
        least_s, most_s = each.time_limit_default_s, each.time_limit_max_s
        if least_s is not None and most_s is not None and least_s > most_s:
            said = f"is more than time_limit_max_s ({most_s:g})"
            problems.add(f"{path}.time_limit_default_s", said)
        for number, type_name in enumerate(each.instance_types):
            if config.instance_types and type_name not in config.instance_types:
                known = did_you_mean(type_name, config.instance_types)
                problems.add(f"{element(f'{path}.instance_types', number)}", f"is no type: {known}")
    for number, name in enumerate(config.own_policies):
        if name not in _installed():
            known = did_you_mean(name, _installed()) if _installed() else "none is installed"
            said = f"is in no installed package's entry points {ENTRY_POINT_GROUP}: {known}"
            problems.add(element("own_policies", number), said)


def _policy(name: str, config: PolicyConfig) -> Policy:
    price = config.price_max_per_hour
    return Policy(
        name=name,
        roles=frozenset(Role(each.value) for each in config.roles) or _ALL_BUT_ADMINS,
        projects=config.projects,
        time_limit_default_s=config.time_limit_default_s,
        time_limit_max_s=config.time_limit_max_s,
        priority_max=config.priority_max,
        price_max_usd_per_hour=None if price is None else Decimal(price),
        array_size_max=config.array_size_max,
        cpu_millis_max=None if config.cpus_max is None else int(config.cpus_max),
        gpus_max=config.gpus_max,
        label_prefixes=config.label_prefixes,
        image_prefixes=config.image_prefixes,
        preemptible_only=config.preemptible_only,
        instance_types=tuple(sorted(set(config.instance_types))),
    )


def _installed() -> list[str]:
    return sorted({each.name for each in entry_points(group=ENTRY_POINT_GROUP)})


def _loaded(name: str, number: int) -> OwnPolicy:
    found = [each for each in entry_points(group=ENTRY_POINT_GROUP) if each.name == name]
    path = element("own_policies", number)
    try:
        policy = found[0].load()
    except Exception as error:
        said = f"{name} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError([(path, said)]) from error
    if not callable(policy):
        raise ConfigError([(path, f"{name} is no function: name one that takes a PolicyRequest")])
    own: OwnPolicy = policy
    return own

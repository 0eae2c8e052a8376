"""YAML whose only booleans are true and false: `on`, `off`, `yes` and `no` are words."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:bool"
_BOOLEAN = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")


@cache
def without_boolean_words(loader: type[Any]) -> type[Any]:
    """Return a loader like `loader`, one of PyYAML's, to which only true and false are booleans."""
    strict: type[Any] = type(loader.__name__, (loader,), {})
    strict.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TAG]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    strict.add_implicit_resolver(_TAG, _BOOLEAN, list("tTfF"))
    return strict


def fastest_loader() -> type[Any]:
    """Return a safe loader with the C parser where there is one, without boolean words."""
    return without_boolean_words(getattr(yaml, "CSafeLoader", yaml.SafeLoader))

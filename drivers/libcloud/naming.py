"""How nodes of a cloud carry what they are: in their names, and in lists of plain tags; pure.

Few clouds take a token with a create call, and not all set tags in the same step. So a node's name
tells the cluster and the token from its first moment, and is the same when a create is repeated.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG

_PLAIN_TOKEN = re.compile(r"[a-z0-9]{1,40}")
_DIGEST = "h-"
_KEPT = re.compile(r"[^a-z0-9-]")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def node_prefix(cluster: str) -> str:
    """Return what the names of all nodes of a cluster begin with."""
    return f"longshore-{_digest(cluster, 8)}-"


def node_name(cluster: str, token: str) -> str:
    """Return the name of the node that is created with a token: at most 63 of a-z, 0-9 and -."""
    plain = _PLAIN_TOKEN.fullmatch(token)
    return node_prefix(cluster) + (token if plain else _DIGEST + _digest(token, 32))


def tags_in_name(name: str, clusters: Iterable[str]) -> dict[str, str]:
    """Return the tags that a node's name tells, none when it is of none of the clusters.

    The token is left out where the name holds only a digest of it.
    """
    for cluster in sorted(clusters):
        prefix = node_prefix(cluster)
        if name.startswith(prefix):
            token = name.removeprefix(prefix)
            known = {} if token.startswith(_DIGEST) else {TOKEN_TAG: token}
            return {CLUSTER_TAG: cluster, **known}
    return {}


def plain_tags(tags: Mapping[str, str]) -> list[str]:
    """Return tags as "KEY:VALUE" of a-z, 0-9, '-' and '_', for clouds that have plain tags only.

    Capital letters are escaped as well: such clouds do not tell them from small ones.
    """
    return [f"{key}:{_KEPT.sub(_escape, value)}" for key, value in sorted(tags.items())]


def tags_in(plain: Iterable[str]) -> dict[str, str]:
    """Return the tags that `plain_tags` made; foreign ones are left out.

    So is a key with two values, which a change that was cut short leaves behind: nobody knows
    which of them holds, and the pool writes it again.
    """
    found: dict[str, set[str]] = {}
    for each in plain:
        key, colon, value = each.partition(":")
        if colon:
            found.setdefault(key, set()).add(_ESCAPED.sub(_unescape, value))
    return {key: values.pop() for key, values in sorted(found.items()) if len(values) == 1}


def _escape(match: re.Match[str]) -> str:
    return "".join(f"_{byte:02x}" for byte in match[0].encode())


def _unescape(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("_", "")).decode(errors="replace")


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]

"""What the supervisor of a container learns of its image, and what fetching one needs to be told.

An image that is not there is fetched before the container is made, so that whoever waits can be
told, and the time does not count as the program's. What is known of it then lies in the attempt's
directory as one line (`RECORD`): whether the order has a command that goes to the image's
ENTRYPOINT (0 or 1), and what the engine says of it, as JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

RECORD = "image"
PULLING = "pulling"
UNPULLED = "unpulled"  # for how many seconds it was fetched in vain, where it was given up
MOST_BYTES = 65_536  # of the record: an image may have a command of any length

#: The first field is where the supervisor's script looks for it.
_TEMPLATE = (
    '{"stop_signal":{{json .Config.StopSignal}},"digest":@DIGEST@,'
    '"entrypoint":{{json .Config.Entrypoint}},"command":{{json .Config.Cmd}}}'
)
_DIGESTS = {
    "podman": "{{json .Digest}}",
    # Docker has a digest of what came from a registry alone; anything else has its id.
    "docker": "{{if .RepoDigests}}{{json (index .RepoDigests 0)}}{{else}}{{json .Id}}{{end}}",
}

_SIGNAL = re.compile(r"[A-Z0-9][A-Z0-9+-]{0,15}")
_DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]{32,128}")
_ARGUMENTS_OF_SHELL = re.compile(r"\$(\{?[0-9@*#]|@)")

#: What `run` takes for the fetching that it does by itself, and `pull` takes as well. Those of the
#: second kind have no value of their own, but for one behind an equals sign.
_VALUED = frozenset(
    {"--arch", "--authfile", "--cert-dir", "--creds", "--decryption-key", "--os", "--platform"}
    | {"--variant"}
)
_FLAGS = frozenset({"--tls-verify", "--disable-content-trust"})

SWALLOWED = (
    "the image's ENTRYPOINT is in shell form and ignores the command: "
    "give 'entrypoint: []' for the command alone, or no command"
)


class Image(NamedTuple):
    """What is known of the image of an attempt; "" where nothing is."""

    pulling: bool = False
    digest: str = ""
    warning: str = ""

    def fields(self) -> dict[str, Any]:
        """Return it as it goes over the wire."""
        return self._asdict()


def template(engine: str) -> str:
    """Return how an engine is asked for what the record holds."""
    return _TEMPLATE.replace("@DIGEST@", _DIGESTS[engine])


def parse(text: str) -> tuple[Image, str]:
    """Return what a record says, with the signal that the image wants for TERM ("" for TERM).

    One that is not whole, or of an engine that does not know, says nothing.
    """
    asked, _, said = text.partition(" ")
    if not text.endswith("\n"):
        return Image(), ""
    try:
        value = json.loads(said)
    except ValueError:
        return Image(), ""
    if not isinstance(value, dict):
        return Image(), ""
    digest = str(value.get("digest") or "").rpartition("@")[2]
    signal = str(value.get("stop_signal") or "")
    image = Image(
        digest=digest if _DIGEST.fullmatch(digest) else "",
        warning=SWALLOWED if asked == "1" and _swallows(value.get("entrypoint")) else "",
    )
    return image, signal if _SIGNAL.fullmatch(signal) else ""


def program(text: str, own: str, *, overrides: bool) -> str:
    """Return which program a container is to execute, "" where nobody knows.

    `text` is the record of its image. `own` is the first word that the order has, "" for none, and
    takes the place of the image's ENTRYPOINT if it `overrides` that.
    """
    if overrides and own:
        return own
    try:
        value = json.loads(text.partition(" ")[2])
    except ValueError:
        return ""
    given = value if isinstance(value, dict) else {}
    entrypoint = None if overrides else given.get("entrypoint")
    for words in (entrypoint, [own] if own else given.get("command")):
        if isinstance(words, list) and words:
            return str(words[0])
    return ""


def _swallows(entrypoint: object) -> bool:
    """Return whether an ENTRYPOINT is a shell's line that looks at none of its arguments."""
    if not isinstance(entrypoint, list) or len(entrypoint) < 3 or entrypoint[-2] != "-c":
        return False
    return not _ARGUMENTS_OF_SHELL.search(str(entrypoint[-1]))


def options(arguments: tuple[str, ...], valued: frozenset[str], flags: frozenset[str]) -> list[str]:
    """Return those of an engine's arguments that are among these options, with their values."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in flags or (name in valued and equals):
            found.append(word)
        elif name in valued:
            found += [word, next(words, "")]
    return found


def pull_options(arguments: tuple[str, ...]) -> list[str]:
    """Return what of the arguments of `run` bears on the fetching of an image."""
    return options(arguments, _VALUED, _FLAGS)


def pull_policy(arguments: tuple[str, ...]) -> str:
    """Return the policy by which the administrator has images fetched, "missing" by default."""
    words = options(arguments, frozenset({"--pull"}), frozenset())
    return words[-1].rpartition("=")[2] if words else "missing"

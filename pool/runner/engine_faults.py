"""Whose fault it is that an engine ran nothing: the request's, or the engine's own.

An image that is unknown or forbidden, or a program that is not in it, fails on any instance; a
storage that is broken, only there. The engines tell these apart by their exit status and by words
for people. Words that are not known are the engine's: then it is tried elsewhere, and a trial of
the engine decides about the instance (`pool.trials`), so a sentence that is missing here costs
tries and harms nobody.
"""

from __future__ import annotations

import re

#: The engines end so where a container's program is not there or cannot be executed; Podman also
#: where its runtime says nothing at all, so that it takes words of the program besides.
_OF_THE_PROGRAM = frozenset({126, 127})
_WORDS_OF_THE_PROGRAM = re.compile(
    r"no such file or directory|not found|permission denied|is a directory|exec format error",
    re.IGNORECASE,
)

#: An image of the name `localhost/…` is in no registry: one that is not there was never made.
_OF_THE_IMAGE = re.compile(
    r"manifest unknown|manifest for \S+ not found|no such image|image not known"
    r"|short-name .* did not resolve|short-name resolution"
    r"|invalid reference format|repository name must be"
    r"|unauthorized|authentication required|access denied|access to the resource is denied"
    r"|repository does not exist|name unknown|no such manifest|not found: manifest"
    r"|no image found in manifest list|no matching manifest|exec format error"
    r"|pinging container registry localhost\b"
    r"|executable file [^\n]* not found|no such file or directory: OCI"
    r"|unable to find user|no matching entries in passwd file|linux spec user",
    re.IGNORECASE,
)


def is_of_the_request(code: int | None, said: str) -> bool:
    """Return whether the engine, which ended with `code` and `said` so much, blames the request."""
    if code in _OF_THE_PROGRAM and _WORDS_OF_THE_PROGRAM.search(said):
        return True
    return _OF_THE_IMAGE.search(said) is not None

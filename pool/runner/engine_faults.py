"""Whose fault it is that an engine ran nothing: the request's, or the engine's own.

An image that is unknown or forbidden, or a program that is not in it, fails on any instance; a
storage that is broken, only there. The engines tell these apart by their exit status and by words
for people. Words that are not known are the engine's: then it is tried elsewhere, and a trial of
the engine decides about the instance (`pool.trials`), so a sentence that is missing here costs
tries and harms nobody.
"""

from __future__ import annotations

import json
import re

PROGRAM_CHARACTERS = 120  # of its name, as it is told

#: The engines end so where a container's program is not there or cannot be executed; Podman also
#: where its runtime says nothing at all, so that it takes words of the program besides.
_OF_THE_PROGRAM = frozenset({126, 127})
#: A runtime that may not set a limit, or misses a device, says the like: what counts is that it
#: speaks of what it was to execute, or of the directory to do it in.
_WORDS_OF_THE_PROGRAM = re.compile(
    r'exec: "[^"\n]*": |executable file [^\n]*not found|open executable: |find executable|'
    r"executable path |exec format error|\bexec [^\n]*: (?:no such file|permission denied)"
    r"|chdir to cwd|no such container directory|is not a regular file",
    re.IGNORECASE,
)

#: All that an init (catatonit, tini) or a runtime writes to a container's stderr when it has begun
#: it, and then cannot execute its program.
_UNEXECUTED = re.compile(
    r"\s*(?:ERROR \(catatonit:\d+\): failed to exec pid1: "
    r"|\[FATAL tini \(\d+\)\] exec [^\n]* failed: "
    r"|(?:standard_init_linux\.go:\d+: )?exec [^\n:]*: )(?P<why>[A-Za-z ]{5,60}?)\s*",
    re.IGNORECASE,
)
_CODES_UNEXECUTED = frozenset({1, 126, 127, 255})

#: Catatonit has a shell try what the kernel does not know how to execute, which reads a program
#: for another kind of processor as if it were a script then.
_READ_BY_A_SHELL = re.compile(
    r"[^\n]*?: (?:line )?1: [^\n]*\x7fELF|[^\n]*: cannot execute binary file\b", re.IGNORECASE
)
_CODES_OF_A_SHELL = frozenset({2, 126, 127})
_FORMAT = "exec format error"

#: An image of the name `localhost/…` is in no registry: one that is not there was never made.
_OF_THE_IMAGE = re.compile(
    r"manifest unknown|manifest for \S+ not found|no such image|image not known"
    r"|short-name .* did not resolve|short-name resolution"
    r"|invalid reference format|repository name must be"
    r"|unauthorized|authentication required|access denied|access to the resource is denied"
    r"|repository does not exist|name unknown|no such manifest|not found: manifest"
    r"|no image found in manifest list|no matching manifest|exec format error"
    r"|pinging container registry localhost\b"
    r"|executable file [^\n]*not found in"
    r"|unable to find user|no matching entries in passwd file|linux spec user",
    re.IGNORECASE,
)


def unexecuted(code: int | None, out_bytes: int, said: str, program: str = "") -> str:
    """Return why a container that ended with `code` never became its program, "" if it did.

    `said` is the whole of its stderr, which names the `program` only sometimes ("" for nobody
    knows). A program can write the same: then it is its own fault.
    """
    if out_bytes:
        return ""
    if code in _CODES_OF_A_SHELL and _READ_BY_A_SHELL.match(said):
        why = _FORMAT
    elif code in _CODES_UNEXECUTED and (found := _UNEXECUTED.fullmatch(said)):
        why = found["why"].lower()
    else:
        return ""
    if why == _FORMAT:
        why += ": it is made for another kind of processor, or is a script without a line #!"
    shown = program if len(program) <= PROGRAM_CHARACTERS else f"{program[:PROGRAM_CHARACTERS]}…"
    name = f" {json.dumps(shown, ensure_ascii=False)}" if program else ""
    return f"its program{name} cannot be executed: {why}"


def is_of_the_request(code: int | None, said: str) -> bool:
    """Return whether the engine, which ended with `code` and `said` so much, blames the request."""
    if code in _OF_THE_PROGRAM and _WORDS_OF_THE_PROGRAM.search(said):
        return True
    return _OF_THE_IMAGE.search(said) is not None

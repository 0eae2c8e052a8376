"""How many files this process may have open at once."""

from __future__ import annotations

import resource


def raise_file_limit() -> int:
    """Raise the limit of open files as far as this process may, and return what it is now.

    Connections, sessions and logs each take a file, and the customary limit of 1024 is for programs
    that have none of these. What is started from now on inherits the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # Some sandboxes forbid even this; then it stays at what it was.
        return soft
    return hard

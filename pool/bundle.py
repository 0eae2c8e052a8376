"""Builds the runner that is sent to instances: one zipapp, the same bytes for the same sources."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

_STAMP = (1980, 1, 1, 0, 0, 0)
# What is imported is Python 3.8; this itself is any, so that an older one can be told.
_MAIN = """import sys

if sys.version_info < (3, 8):
    sys.exit("this is Python %d.%d, and the runner needs 3.8 or later" % sys.version_info[:2])

from longshore.pool.runner.main import main

sys.exit(main(sys.argv[0], sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerBundle:
    """The runner as one zipapp, and the SHA-256 of it in hex."""

    data: bytes
    sha256: str


@functools.cache
def build_runner() -> RunnerBundle:
    """Return the runner of this installation, built once a process.

    Nothing in it depends on when or where it is built, so that equal sources have equal names on
    the instances. It is not compressed, since compressors differ.
    """
    sources = Path(__file__).resolve().parent / "runner"
    files = {
        f"longshore/pool/runner/{path.name}": path.read_text("utf-8")
        for path in sources.glob("*.py")
    }
    files |= {"longshore/__init__.py": "", "longshore/pool/__init__.py": "", "__main__.py": _MAIN}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _STAMP), files[name])
    data = buffer.getvalue()
    return RunnerBundle(data=data, sha256=hashlib.sha256(data).hexdigest())

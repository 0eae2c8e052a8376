"""The URL that names the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError


def store_path(url: str) -> Path:
    """Return the file that a store's URL names.

    Raises `ValueError` with a sentence for anything but `sqlite:///PATH`.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError("is not a URL: write sqlite:////an/absolute/path/longshore.db") from None
    if parsed.get_backend_name() != "sqlite":
        raise ValueError("must be sqlite:///PATH; other databases are not supported yet")
    if parsed.host or not parsed.database or parsed.database == ":memory:" or parsed.query:
        raise ValueError("must name a file and nothing else, as sqlite:////var/lib/longshore.db")
    return Path(parsed.database)

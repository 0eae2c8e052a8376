"""What a URL and a token can be: pure, and quick to import.

A server is reached over the network, or on a Unix socket of this machine, whose URL is
unix:///path/longshore.sock.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class OverNetwork:
    """A server at an http or https URL, without a final slash."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSocket:
    """A server on this machine's Unix socket at `path`."""

    path: str


Place = OverNetwork | OverSocket


NOT_A_TOKEN = "holds characters that no token has: check for line ends, blanks and quotes"  # noqa: S105 - a sentence


def not_a_url(url: str) -> str:
    """Return what is said of a URL that cannot be one, with the remedy."""
    return (
        f"'{url}' is not the URL of a server: give one like http://127.0.0.1:8420, "
        "or unix:///path/longshore.sock"
    )


def server_at(url: str) -> Place | None:
    """Return where a URL leads, None when it cannot be one of a server."""
    try:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            path = unquote(parts.path)
            return OverSocket(path=path) if not parts.netloc and path.startswith("/") else None
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    return OverNetwork(url=url.rstrip("/")) if usable else None


def is_token(text: str) -> bool:
    """Return whether a text can be sent as a token, or is none at all."""
    return text.isascii() and (not text or text.isprintable()) and " " not in text

"""Where traces may go: what may be wrong with that, and the headers that go with them.

The headers are in a file of their own, since they mostly have a secret: nothing shows them.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from longshore.dispatcher.config.hosts import is_loopback
from longshore.dispatcher.config.model import Config, TracesConfig
from longshore.dispatcher.input.problems import Problems
from longshore.drivers.errors import ConfigError

_NEEDED: Final = "opentelemetry.exporter.otlp.proto.http"
_PATH: Final = "/v1/traces"
_FILE_BYTES_MOST: Final = 16_384
_HEADER = re.compile(
    r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)"
)
_IN_ITS_PLACE = "write one on each line, as in Authorization: Bearer TOKEN"


def check_traces(config: Config, problems: Problems) -> None:
    """Add what is wrong with where traces are sent to `problems`."""
    told = config.traces
    if not told.endpoint:
        if told.headers_file:
            problems.add("traces.endpoint", "is missing: headers_file is of no use without it")
        return
    if not _is_installed():
        what = 'needs packages that are not installed: pip install "longshore[otel]"'
        problems.add("traces.endpoint", what)
    if why := _endpoint_problem(told):
        problems.add("traces.endpoint", why)
    try:
        trace_headers(told)
    except ConfigError as error:
        problems.extend(error.problems)


def trace_url(told: TracesConfig) -> str:
    """Return the URL that spans are sent to: without a path of its own, the usual one."""
    return f"{told.endpoint.rstrip('/')}{_PATH}" if _has_no_path(told.endpoint) else told.endpoint


def trace_headers(told: TracesConfig) -> dict[str, str]:
    """Return the headers that are in the file, which is read now; none without a file.

    Raises `ConfigError`, with the remedy, where the file cannot be read, can be read by everybody,
    or holds something else.
    """
    where, file = "traces.headers_file", Path(told.headers_file)
    if not told.headers_file:
        return {}
    try:
        with file.open("rb") as opened:
            content, mode = opened.read(_FILE_BYTES_MOST + 1), file.stat().st_mode
    except OSError as error:
        what = f"{file} cannot be read ({error.strerror}): make it, or name another"
        raise ConfigError([(where, what)]) from error
    if mode & 0o027:
        what = f"{file} (mode {mode & 0o777:04o}) is open to others: chmod 600 {file}"
        raise ConfigError([(where, what)])
    if len(content) > _FILE_BYTES_MOST:
        raise ConfigError([(where, f"{file} is longer than {_FILE_BYTES_MOST} bytes: shorten it")])
    headers: dict[str, str] = {}
    for number, line in enumerate(content.decode("latin-1").splitlines(), 1):
        if not line.strip():
            continue
        found = _HEADER.fullmatch(line.strip())
        if found is None:
            # The line is not quoted: it may hold a secret.
            raise ConfigError([(where, f"line {number} of {file} is no header: {_IN_ITS_PLACE}")])
        headers[found[1]] = found[2]
    return headers


def _is_installed() -> bool:
    try:
        return find_spec(_NEEDED) is not None
    except ImportError:
        return False


def _has_no_path(url: str) -> bool:
    return urlsplit(url).path in ("", "/")


def _endpoint_problem(told: TracesConfig) -> str:
    try:
        parts = urlsplit(told.endpoint)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL, such as http://127.0.0.1:4318/v1/traces"
    if parts.scheme not in ("http", "https") or not host:
        return "must be http://HOST:PORT/PATH or https://HOST/PATH"
    if parts.username is not None or parts.query or parts.fragment:
        return "must have no user, query or fragment: write what is secret into traces.headers_file"
    if told.headers_file and parts.scheme != "https" and not is_loopback(host):
        return "must begin with https:// where headers go with it: they would be read on their way"
    return ""

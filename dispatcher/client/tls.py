"""What a port speaks, TLS or not: told by what fails, or asked for.

Theory of operation. Who says https to a port without TLS gets bytes that are no TLS, which OpenSSL
names (`_NO_TLS`). Who says http to a port with TLS is hung up on, or told so in words of any kind,
which many other troubles look like. So that port is asked: where a handshake comes to its end, TLS
is spoken, whoever's certificate it is. Nothing is sent after it, and no token.
"""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from longshore.dispatcher.client.exchange import NotReached, WrongScheme

PROBE_TIMEOUT_S = 2.0

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
"""What OpenSSL calls it, by its version, when the first bytes that come are of plain HTTP."""


def tls_failure(error: BaseException) -> NotReached | WrongScheme:
    """Return what an error of an HTTP library's means, by that of OpenSSL's that it came from."""
    cause: BaseException | None = error
    # Those of aiohttp are called SSLError too, and have no reason.
    while cause is not None and not getattr(cause, "reason", None):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        return WrongScheme(spoken="http")
    return NotReached(
        cause=f"TLS failed: {cause or error}", remedy="Check the certificate and the URL's scheme"
    )


def speaks_tls(url: str) -> bool:
    """Return whether the port of an http URL is one of TLS; False where that does not show soon.

    Blocks for a few seconds at most.
    """
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    address = (parts.hostname or "", parts.port or 80)
    try:
        with (
            socket.create_connection(address, timeout=PROBE_TIMEOUT_S) as raw,
            context.wrap_socket(raw),
        ):
            return True
    except OSError:
        # Refused, silent, or no TLS: whatever went wrong before is told as it is.
        return False

"""TLS: the certificate and key of the server, read from their files and read again on a change."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificates

from longshore.dispatcher.config.model import TlsConfig
from longshore.drivers.errors import ConfigError

Stamps = tuple[tuple[int, int, int], ...]
"""Inode, size in bytes and time of change in ns of each file."""


def server_context(tls: TlsConfig) -> tuple[ssl.SSLContext, float | None]:
    """Return what a server with this certificate needs: TLS 1.2 or later; and when that expires.

    The end is as of `load_certificate`. Raises `ConfigError` when the files cannot be read or do
    not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context, load_certificate(context, tls)


def load_certificate(context: ssl.SSLContext, tls: TlsConfig) -> float | None:
    """Have connections from now on get the certificate that the files hold; raises as above.

    Returns when it expires, in seconds since the epoch, None where that cannot be read.

    A pair is tried before, elsewhere: a context whose loading fails has the new certificate and the
    old key, and serves nobody any more. What is loaded are the very bytes that were tried, whatever
    becomes of the files meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="longshore-tls-") as private:
        copy = TlsConfig(
            certificate=_copied(tls.certificate, "certificate", private),
            private_key=_copied(tls.private_key, "private_key", private),
        )
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), copy, told=tls)
        _load(context, copy, told=tls)
        return _end_of(Path(copy.certificate).read_bytes())


def _end_of(certificates: bytes) -> float | None:
    """Return when the first of these expires: the server's own, before those that vouch for it."""
    try:
        own = load_pem_x509_certificates(certificates)[0]
        return own.not_valid_after_utc.timestamp()
    except ValueError:
        return None  # OpenSSL has taken it, and takes forms that nothing else reads


def _copied(path: str, name: str, directory: str) -> str:
    copy = Path(directory) / name
    try:
        copy.write_bytes(Path(path).read_bytes())
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise ConfigError([(f"tls.{name}", said)]) from error
    return str(copy)


def _load(context: ssl.SSLContext, tls: TlsConfig, *, told: TlsConfig) -> None:
    try:
        # Without a password callback an encrypted key would ask for one on the terminal.
        context.load_cert_chain(tls.certificate, tls.private_key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        said = f"does not go with {told.private_key}, or is none: {_in_words(error)}"
        raise ConfigError([("tls.certificate", said)]) from error


def stamps(tls: TlsConfig) -> Stamps:
    """Return what tells whether the files are others than before, () where one cannot be found."""
    try:
        found = [Path(each).stat() for each in (tls.certificate, tls.private_key)]
    except OSError:
        return ()
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error)

"""Our own private key: made once, kept in a file, never looked for anywhere else.

We make ed25519. Machines whose cryptography is that of FIPS 140 know no such keys: for them an
admin makes one of ECDSA (NIST P-256, P-384 or P-521) or RSA, see FIPS 186-5 and SP 800-131A.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from longshore.drivers.errors import ConfigError

_MAX_FILE_BYTES = 64 * 1024
#: SP 800-131A: shorter ones are no longer allowed, and OpenSSH's servers may refuse them.
MIN_RSA_BITS = 2048
_REMEDY = "delete the file to have a new key made, or name another in ssh.private_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateKey:
    """An ed25519, ECDSA or RSA key pair; its text is kept out of `repr`, and so out of logs.

    Two are equal when the public halves are: the format puts a random number in the private text.
    """

    openssh_text: str = field(repr=False, compare=False)
    #: "TYPE BASE64", as a line of authorized_keys has it.
    public_text: str

    @property
    def key_type(self) -> str:
        """Return its type as SSH calls it, such as "ssh-ed25519" or "ecdsa-sha2-nistp256"."""
        return self.public_text.partition(" ")[0]


def public_key_text(key: PrivateKey) -> str:
    """Return the public half as "TYPE BASE64", as a driver puts it on an instance."""
    return key.public_text


def new_private_key() -> PrivateKey:
    """Return a key pair that was made just now and is kept nowhere."""
    return _parse(Path("a new key"), _new_key())


def load_or_create_private_key(path: Path) -> PrivateKey:
    """Return the key in the file `path`; when there is no such file, make a key and keep it there.

    A new file has mode 0600 and missing directories are made. Two processes that do this at once
    end up with the same key. Raises `ConfigError`, with the remedy, when the file cannot be read
    or written, or holds no ed25519, ECDSA or RSA private key without a passphrase.
    """
    try:
        content = _read_or_create(path)
    except OSError as error:
        what = f"{path}: {error.strerror or error}; make it readable and writable by this user"
        raise ConfigError([("ssh.private_key", what)]) from error
    return _parse(path, content)


def check_private_key(path: Path) -> None:
    """Raise `ConfigError` for a file that holds no key of ours; it must be there, and stays as is.

    Only its owner, and a group that may read it, must have it: it opens every instance.
    """
    try:
        content, mode = _read(path), path.stat().st_mode
    except OSError as error:
        what = f"{path} cannot be read ({error.strerror}): give this user access"
        raise ConfigError([("ssh.private_key", what)]) from error
    _parse(path, content)
    if mode & 0o027:
        what = f"{path} (mode {mode & 0o777:04o}) is open to others: chmod 600 {path}"
        raise ConfigError([("ssh.private_key", what)])


def _read_or_create(path: Path) -> bytes:
    try:
        return _read(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_new_key())
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, leaves alone the key that another process made meanwhile.
        path.hardlink_to(temporary)
    except FileExistsError:
        return _read(path)
    finally:
        Path(temporary).unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_FILE_BYTES)


def _new_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _parse(path: Path, content: bytes) -> PrivateKey:
    try:
        key = serialization.load_ssh_private_key(content, password=None)
    except (ValueError, UnsupportedAlgorithm) as error:
        what = f"{path} holds no OpenSSH private key ({error}); {_REMEDY}"
        raise ConfigError([("ssh.private_key", what)]) from error
    except TypeError as error:
        what = f"{path} is protected by a passphrase, and nobody is there to type it; {_REMEDY}"
        raise ConfigError([("ssh.private_key", what)]) from error
    if not isinstance(key, Ed25519PrivateKey | EllipticCurvePrivateKey | RSAPrivateKey):
        what = f"{path} holds a key that is not ed25519, ECDSA or RSA; {_REMEDY}"
        raise ConfigError([("ssh.private_key", what)])
    if isinstance(key, RSAPrivateKey) and key.key_size < MIN_RSA_BITS:
        what = f"{path} holds an RSA key of {key.key_size} bits, {MIN_RSA_BITS} are the least"
        raise ConfigError([("ssh.private_key", f"{what}; {_REMEDY}")])
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return PrivateKey(openssh_text=text.decode(), public_text=public.decode())

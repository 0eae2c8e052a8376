"""Our public key as a key pair of the account."""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from typing import Any

from longshore.drivers.ec2.faults import FAILURES, judged
from longshore.drivers.errors import CloudError

MISSING = "InvalidKeyPair.NotFound"
_TAKEN = "InvalidKeyPair.Duplicate"


class KeyPairs:
    """Sees to it that the account has our key: asked for once, and again when it is gone."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._there: set[str] = set()

    def name_of(self, public_key: str) -> str:
        """Return the name of the key pair of `public_key` ("TYPE BASE64"), imported if need be.

        Raises any `CloudError`; one says that the name is taken by another key.
        """
        name = key_name(public_key)
        # Creates come ten at a time: the others wait for the one that imports.
        with self._lock:
            if name not in self._there:
                if not self._is_there(name, public_key):
                    self._import(name, public_key)
                self._there.add(name)
        return name

    def forget(self, public_key: str) -> None:
        """Look again the next time: EC2 says that the key pair is gone."""
        with self._lock:
            self._there.discard(key_name(public_key))

    def _is_there(self, name: str, public_key: str) -> bool:
        try:
            answer = self._client.describe_key_pairs(KeyNames=[name], IncludePublicKey=True)
        except FAILURES as failure:
            verdict = judged(failure, call="DescribeKeyPairs", changes=False)
            if verdict.code == MISSING:
                return False
            raise verdict.error from failure
        for pair in answer.get("KeyPairs", []):
            if not is_same_key(public_key, pair):
                raise CloudError(
                    f"the key pair {name} of the account holds another key: delete it there, and"
                    " ours is imported again"
                )
        return bool(answer.get("KeyPairs"))

    def _import(self, name: str, public_key: str) -> None:
        try:
            self._client.import_key_pair(KeyName=name, PublicKeyMaterial=public_key.encode())
        except FAILURES as failure:
            verdict = judged(failure, call="ImportKeyPair", changes=False)
            # Another dispatcher with our key was faster.
            if verdict.code != _TAKEN or not self._is_there(name, public_key):
                raise verdict.error from failure


def key_name(public_key: str) -> str:
    """Return the name under which a key ("TYPE BASE64") is imported."""
    return f"longshore-{hashlib.sha256(_blob(public_key)).hexdigest()[:32]}"


def is_same_key(public_key: str, pair: dict[str, Any]) -> bool:
    """Return whether a key pair, as EC2 describes it, holds this key.

    EC2 tells the key itself, or for Ed25519 its fingerprint as OpenSSH writes it, with or without
    the padding; a pair of which it tells neither is believed, since its name is made of the key.
    """
    if told := pair.get("PublicKey"):
        return bool(str(told).split()[:2] == public_key.split()[:2])
    fingerprint = str(pair.get("KeyFingerprint", ""))
    if ":" in fingerprint.removeprefix("SHA256:") or not fingerprint:
        return True
    own = base64.b64encode(hashlib.sha256(_blob(public_key)).digest()).decode()
    return fingerprint.removeprefix("SHA256:").rstrip("=") == own.rstrip("=")


def _blob(public_key: str) -> bytes:
    try:
        return base64.b64decode(public_key.split()[1], validate=True)
    except (IndexError, binascii.Error) as error:
        raise CloudError("the public key is not of the form TYPE BASE64") from error

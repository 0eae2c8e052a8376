"""Credentials of the AWS tools' files, read again while the server runs.

boto3 reads them once. What renews them there (a login of a few hours, a secrets manager) would make
no difference to a server that is up, which would be refused from the hour on at which the first
ones end. So they count as good for a minute, and are read again at the first call after that.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.credentials import CredentialProvider, RefreshableCredentials
from botocore.exceptions import CredentialRetrievalError
from botocore.session import Session

_KEPT = timedelta(minutes=1)
_EARLY = timedelta(minutes=15)
"""How long before their end botocore renews credentials."""

_FILES = ("shared-credentials-file", "config-file")


def rereading_session(profile: str) -> Session:
    """Return a session of a profile ("": the default one), whose files are read again.

    Credentials from elsewhere (the environment, a role) are boto3's matter; it renews them itself.
    """
    session = Session(profile=profile or None)
    resolver = session.get_component("credential_provider")
    for name in _FILES:
        resolver.insert_before(name, _Rereading(resolver.get_provider(name)))
    return session


class _Rereading(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    """What another provider finds, asked again each minute."""

    CANONICAL_NAME = None

    def __init__(self, files: Any) -> None:
        super().__init__()
        self._files = files
        self.METHOD = files.METHOD

    def load(self) -> RefreshableCredentials | None:
        """Return the credentials that the files have, None for none."""
        found = self._found()
        if found is None:
            return None
        return RefreshableCredentials.create_from_metadata(
            metadata=found, refresh_using=self._again, method=self.METHOD
        )

    def _again(self) -> dict[str, Any]:
        found = self._found()
        if found is None:
            missing = "the files of the AWS tools have no credentials any more"
            raise CredentialRetrievalError(provider=self.METHOD, error_msg=missing)
        return found

    def _found(self) -> dict[str, Any] | None:
        found = self._files.load()
        if found is None:
            return None
        return {
            "access_key": found.access_key,
            "secret_key": found.secret_key,
            "token": found.token,
            "expiry_time": (datetime.now(UTC) + _EARLY + _KEPT).isoformat(),
        }

"""Where the values of secrets come from when an attempt is started, and how that can fail."""

from __future__ import annotations

from typing import Protocol

from longshore.drivers.errors import LongshoreError
from longshore.pool.model import NO_SECRET_VALUES, SecretOrder, SecretValues


class SecretsWithheld(LongshoreError):  # noqa: N818 - reads as the answer it becomes
    """A secret is not there, or its key is not: the attempt is not to be started now."""


class SecretsUnusable(LongshoreError):  # noqa: N818 - reads as the answer it becomes
    """A secret is there and cannot be what it is to be used as: to try again does not help."""


class SecretSource(Protocol):
    """Looks secrets up, at each start anew; called on the performing thread, never blocks."""

    def values(self, order: SecretOrder) -> SecretValues:
        """Return the values; raises `SecretsWithheld` or `SecretsUnusable` with a sentence."""
        ...


class NoSecrets:
    """The source where there are none."""

    def values(self, order: SecretOrder) -> SecretValues:
        """Return nothing for nothing; raises `SecretsWithheld` for all else."""
        if order.uses or order.sealed_env:
            raise SecretsWithheld("this server keeps no secrets")
        return NO_SECRET_VALUES

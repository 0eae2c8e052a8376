"""The certificate of a server that runs: read again when its files change, and told when it ends.

Stands alone: it is all of the server that waits for files, and is tested without the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from longshore.dispatcher.config.model import TlsConfig
from longshore.dispatcher.config.tls import Stamps, load_certificate, server_context, stamps
from longshore.dispatcher.domain.timefmt import moment
from longshore.drivers.errors import ConfigError

LOOK_EACH_S = 2.0
EXPIRES_SOON_S = 14 * 86_400.0

_log = structlog.get_logger(__name__)


class Certificate:
    """What new connections are given; used on the loop's thread.

    `now` gives seconds since the epoch. Making one raises `ConfigError` when the files cannot be
    used, `OSError` when they are not there.
    """

    def __init__(self, tls: TlsConfig, *, now: Callable[[], float]) -> None:
        self._tls = tls
        self._now = now
        # From before the files are read, so that no change since is missed.
        self._seen: Stamps = stamps(tls)
        self._unusable = ""
        #: For those who listen.
        self.context, self._expires_at = server_context(tls)
        self._warn_of_end()

    @property
    def ends_at(self) -> float | None:
        """Return when it ends, in seconds since the epoch, None where it does not say."""
        return self._expires_at

    def problem(self) -> str:
        """Return what is wrong with the certificate or its files, in a sentence, "" for nothing."""
        told = [each for each in (self._end(), self._unusable) if each]
        return "; ".join(told)

    async def keep_current(self, *, look_each_s: float = LOOK_EACH_S) -> None:
        """Have new connections get the certificate that the files hold, until it is cancelled.

        Files that are not there or do not go together, as between the writing of one and of the
        other, change nothing: what was read last is good until then, and the log says so, once for
        each that is written.
        """
        told = ""
        while True:
            await asyncio.sleep(look_each_s)
            now = await asyncio.to_thread(stamps, self._tls)
            try:
                if not now or now != self._seen:
                    await self._read_again()
            except (OSError, ConfigError) as error:
                if told != f"{now} {error}":
                    what = "the certificate was not read again; the one before is used"
                    _log.warning(what, why=str(error))
                told = f"{now} {error}"
                self._unusable = (
                    "the files of the TLS certificate cannot be used, so that clients still get the"
                    f" one before: {error}; mend them, and the server reads them by itself"
                )
            else:
                self._seen, told, self._unusable = now, "", ""

    async def _read_again(self) -> None:
        self._expires_at = await asyncio.to_thread(load_certificate, self.context, self._tls)
        _log.info("the certificate was read again", certificate=self._tls.certificate)
        self._warn_of_end()

    def _warn_of_end(self) -> None:
        if why := self._end():
            _log.warning("the certificate has to be renewed", why=why)

    def _end(self) -> str:
        """Return that the certificate expires soon, or has, "" while there is time."""
        if self._expires_at is None or self._expires_at - self._now() > EXPIRES_SOON_S:
            return ""
        at = moment(self._expires_at)
        if self._expires_at <= self._now():
            told = f"has expired, at {at}, so that clients refuse to connect"
        else:
            told = f"expires soon, at {at}"
        return (
            f"the TLS certificate {self._tls.certificate} {told}: put a renewed one and its key in"
            " their place, and the server reads them by itself"
        )

"""The certificate of a server that runs: read again when its files change.

Stands alone: it is all of the server that waits for files, and is tested without the rest.
"""

from __future__ import annotations

import asyncio
import ssl

import structlog

from longshore.dispatcher.config.model import TlsConfig
from longshore.dispatcher.config.tls import Stamps, load_certificate, stamps
from longshore.drivers.errors import ConfigError

LOOK_EACH_S = 2.0

_log = structlog.get_logger(__name__)


async def keep_current(
    context: ssl.SSLContext, tls: TlsConfig, *, seen: Stamps, look_each_s: float = LOOK_EACH_S
) -> None:
    """Have new connections get the certificate that the files hold, until it is cancelled.

    `seen` are the stamps from before the files were read, so that no change since is missed. Files
    that are not there or do not go together, as between the writing of one and of the other, change
    nothing: what was read last is good until then, and the log says so, once for each that is
    written.
    """
    told = ""
    while True:
        await asyncio.sleep(look_each_s)
        now = await asyncio.to_thread(stamps, tls)
        if now and now == seen:
            continue
        try:
            await asyncio.to_thread(load_certificate, context, tls)
        except (OSError, ConfigError) as error:
            if told != f"{now} {error}":
                what = "the certificate was not read again; the one before is used"
                _log.warning(what, why=str(error))
            told = f"{now} {error}"
        else:
            seen, told = now, ""
            _log.info("the certificate was read again", certificate=tls.certificate)

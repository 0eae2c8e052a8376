"""Paramiko's transport with bounds on what a far end may send, before and after its key is proven.

Each transport reads on a thread of its own, but there is one lock of Python's for all: what one
instance makes us read and think about, all others wait for. So a far end may send

- so many messages that carry no output, which is far more than any server has a reason for: whoever
  sends more is hung up on. Few are cheap (MSG_IGNORE, MSG_DEBUG, requests that nobody knows), a key
  exchange is dear. What we send earns more of them, since it makes the far end open its window;
- as much output as it likes, but it is read at a pace. The rest waits in the network, and an honest
  far end makes larger messages of it;
- 8 KiB before it says its version, and no packet above 256 KiB.

`fault` tells why we hung up, which paramiko would tell to whoever asks first, and nobody else.
"""

from __future__ import annotations

import socket
import time
from typing import ClassVar, Final

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_KEXINIT
from paramiko.packet import Packetizer

from longshore.pool.remote.allowance import MessageAllowance

_MOST_PACKET_BYTES: Final = 256 * 1024
_MOST_BYTES_BEFORE_VERSION: Final = 8 * 1024
_OUTPUT: Final = frozenset({MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA})
_OUTPUT_AT_ONCE: Final = 1_000
_OUTPUT_PER_SECOND: Final = 1_000
_BYTES_PER_OUTPUT: Final = 64 * 1024
"""A message of output counts as one more for each so many bytes that it has."""
_OTHER_AT_ONCE: Final = 500
_OTHER_PER_SECOND: Final = 50
_BYTES_PER_OTHER: Final = 4 * 1024
_BYTES_SENT_PER_OTHER: Final = 1024
"""What we have to send for one more; OpenSSH tells of its window about every 96 KiB."""
_COST_OF_KEY_EXCHANGE: Final = 50
_LEAST_REST_S: Final = 0.02
_LONGEST_REST_S: Final = 0.1


class BoundedPacketizer(Packetizer):
    """Reads no more, and no faster, than this module allows."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.fault = ""
        self._before_version_bytes = 0
        self._sent_bytes = 0
        self._rewarded_bytes = 0
        self._output = MessageAllowance(most=_OUTPUT_AT_ONCE, per_second=_OUTPUT_PER_SECOND)
        self._other = MessageAllowance(most=_OTHER_AT_ONCE, per_second=_OTHER_PER_SECOND)

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes; raises `SSHException` when a packet is too long.

        Paramiko takes 4 GiB of anybody, and is the slower the more has come; RFC 4253 asks for
        35,000 bytes.
        """
        if n > _MOST_PACKET_BYTES:
            raise self._hung_up(f"a packet with {n} bytes to come is too long")
        return super().read_all(n, check_rekey)

    def read_message(self) -> tuple[int, paramiko.Message]:
        """Read a message, resting where there is too much output; `SSHException` on a flood."""
        kind, message = super().read_message()
        size, now = message.packet.getbuffer().nbytes, time.monotonic()
        if kind in _OUTPUT:
            owed_s = self._output.spend(1 + size / _BYTES_PER_OUTPUT, now)
            if owed_s >= _LEAST_REST_S:
                time.sleep(min(owed_s, _LONGEST_REST_S))
            return kind, message
        sent = self._sent_bytes  # by other threads
        self._other.grant((sent - self._rewarded_bytes) / _BYTES_SENT_PER_OTHER)
        self._rewarded_bytes = sent
        cost = _COST_OF_KEY_EXCHANGE if kind == MSG_KEXINIT else 1 + size // _BYTES_PER_OTHER
        if self._other.spend(cost, now):
            raise self._hung_up(
                "it floods us with SSH messages that carry no output, the last of type "
                f"{kind}: more than {_OTHER_AT_ONCE} at once and {_OTHER_PER_SECOND} a second"
            )
        return kind, message

    def write_all(self, out: bytes) -> None:  # type: ignore[override]  # paramiko takes its length
        """Send all of `out`; paramiko calls it under its lock, so that the count is right."""
        super().write_all(out)
        self._sent_bytes += len(out)

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of what comes before a version, which may never come."""
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]  # not in the stubs
        self._before_version_bytes += len(data)
        if self._before_version_bytes > _MOST_BYTES_BEFORE_VERSION:
            what = f"it does not say its SSH version within {_MOST_BYTES_BEFORE_VERSION} bytes"
            raise self._hung_up(what)
        return data

    def _hung_up(self, fault: str) -> paramiko.SSHException:
        self.fault = fault
        return paramiko.SSHException(fault)


_EXCHANGES_BY_NAME: dict[str, type] = vars(paramiko.Transport)["_kex_info"]


class BoundedTransport(paramiko.Transport):
    """One with bounds, that knows `curve25519-sha256` (RFC 8731) by its own name, too.

    Paramiko 5 knows that exchange by the name from before it was standardized only, and servers
    that are set up by a policy may offer it under the other.
    """

    _kex_info: ClassVar[dict[str, type]] = {
        **_EXCHANGES_BY_NAME,
        "curve25519-sha256": _EXCHANGES_BY_NAME["curve25519-sha256@libssh.org"],
    }
    packetizer: BoundedPacketizer

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected, packetizer_class=BoundedPacketizer)

    @property
    def ended(self) -> bool:
        """Return whether the connection has ended, or is ending: channels end just before it."""
        failure = self.saved_exception
        refused = isinstance(failure, paramiko.ChannelException)
        return not self.is_active() or (failure is not None and not refused)

    @property
    def fault(self) -> str:
        """Return what the far end did that made us hang up, "" for nothing of the kind."""
        return self.packetizer.fault

    def hang_up(self, fault: str) -> None:
        """Shut the socket down for a fault of the far end's; any thread may do so."""
        self.packetizer.fault = self.packetizer.fault or fault
        self.sock.shutdown(socket.SHUT_RDWR)

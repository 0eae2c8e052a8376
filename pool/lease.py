"""The dead-man's lease as the dispatcher asks for it: its terms, and who keeps it at first; pure.

An instance that no dispatcher contacts for `orphan_timeout_s`, and on which nothing runs but
residents, powers itself off. The runner keeps the lease as soon as a session was there
(`pool/runner/lease.py`). Until then a part of the init script does: a dispatcher may die right
after the create call.
"""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import Final

from longshore.pool.hostkey import CONTACT_MARK, RUNNER_DIRECTORY, users_directory

ATTACHED_MARK: Final = "attached"
FIRST_RETRY_S: Final = 60
LONGEST_RETRY_S: Final = 900
_MOST_CHARACTERS: Final = 16_384
_LONGEST_RENEWAL_S: Final = 60.0
_RENEWALS_IN_TIMEOUT: Final = 4

# `_ls_d` is the runner's directory, `_ls_wait` the seconds without a contact. A contact leaves a
# mark that is taken away here, so that no clock is asked: those of new machines are set, and jump.
_KEEPER: Final = f"""
umask 077
trap '' HUP
_ls_contacted() {{
  [ ! -e "$_ls_d/{ATTACHED_MARK}" ] || return 0
  [ -e "$_ls_d/{CONTACT_MARK}" ] && {{ rm -f "$_ls_d/{CONTACT_MARK}"; true; }}
}}
_ls_tell() {{
  echo "try $_ls_try at $(date -u), before any session"
  _ls_code=$({{ {{ $_ls_limit sh -c "$_ls_command" 2>&1 3>&- 4>&-; echo "$?" >&4; }} |
    {{ head -c 65536 >&3; cat >/dev/null; }} 4>&-; }} 4>&1)
  echo "exit status $_ls_code"
}}
while sleep "$_ls_wait"; do
  [ ! -e "$_ls_d/{ATTACHED_MARK}" ] || exit 0
  _ls_try=0 _ls_delay=$_ls_first
  until _ls_contacted; do
    _ls_try=$((_ls_try + 1)) _ls_limit= _ls_log="$_ls_d/power-off.log"
    ! command -v timeout >/dev/null || _ls_limit="timeout $_ls_delay"
    rm -f "$_ls_log"
    true >"$_ls_log" || _ls_log=/dev/null
    {{ _ls_tell 3>&1; }} >"$_ls_log"
    sleep "$_ls_delay"
    _ls_delay=$((_ls_delay * 2))
    [ "$_ls_delay" -le {LONGEST_RETRY_S} ] || _ls_delay={LONGEST_RETRY_S}
  done
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What a hello asks of the runner; `power_off` is the driver's command, run by `sh -c`."""

    orphan_timeout_s: float
    power_off: str
    suspended: bool

    def fields(self) -> dict[str, object]:
        """Return the `lease` of a hello, as a new dictionary."""
        return {
            "orphan_timeout_s": self.orphan_timeout_s,
            "power_off": self.power_off,
            "suspended": self.suspended,
        }


def fault_of_command(power_off: str) -> str:
    """Return why an instance would not take a power-off command, "" when it would."""
    if len(power_off) > _MOST_CHARACTERS:
        return f"is longer than {_MOST_CHARACTERS} characters"
    if not power_off.isascii() or "\0" in power_off:
        return "has characters beyond ASCII, or a zero byte"
    return ""


def renewal_interval_s(orphan_timeout_s: float) -> float:
    """Return how often a session renews the lease, so that a few lost renewals do no harm."""
    return min(_LONGEST_RENEWAL_S, orphan_timeout_s / _RENEWALS_IN_TIMEOUT)


def first_contact_fragment(
    orphan_timeout_s: float, power_off: str, *, user: str = "root", first_retry_s: int = 0
) -> str:
    """Return POSIX shell that keeps the lease on a new instance until a session is there.

    It belongs behind `init_fragment`, returns at once, and does not end the script when it fails. A
    process stays behind that waits `orphan_timeout_s` (rounded up) after each contact, and at last
    runs `power_off` as who runs the script; it tries again after `first_retry_s` (0: a minute, or
    `orphan_timeout_s` if that is less), then after twice the time, up to 15 minutes, until
    there is a contact. `user` is the one we log in as. "" when `power_off` is "".
    """
    if not power_off:
        return ""
    wait_s = max(1, math.ceil(orphan_timeout_s))
    first_s = first_retry_s or min(FIRST_RETRY_S, wait_s)
    # Through the environment, not as arguments, which are everybody's to read. In a subshell, so
    # that an init script that waits for its children does not wait for this one.
    return (
        f"( {users_directory(user)}\n"
        f'_ls_d="$d" _ls_wait={wait_s} _ls_first={first_s} _ls_command={shlex.quote(power_off)}\n'
        "export _ls_d _ls_wait _ls_first _ls_command\n"
        'mkdir -p "$d"; _ls_setsid="$(command -v setsid || true)"\n'
        f"$_ls_setsid sh -c {shlex.quote(_KEEPER)} "
        "</dev/null >/dev/null 2>&1 & )\n"
    )


def contact_command() -> str:
    """Return shell that notes a contact on an instance that has had no session yet."""
    return f'{RUNNER_DIRECTORY}[ ! -d "$d" ] || : >"$d/{CONTACT_MARK}"'

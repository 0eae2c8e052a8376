"""The script that a new instance runs as user data: the init script first, then the key; pure.

Stands alone: it is part of the pure core, and the instance set that asks it is not.
"""

from __future__ import annotations

import base64
import re
import shlex

from longshore.drivers.errors import CloudError

LARGEST_BYTES = 48 * 1024
"""What OpenStack takes: 65,535 bytes in base64. The others take more."""

_SCRIPT = """\
#!/bin/sh
# Made by Longshore. Some clouds run this at each boot: the directory says that it was run.
mkdir -p /var/lib
mkdir /var/lib/longshore-init 2>/dev/null || exit 0
umask 077
user={user}
id "$user" >/dev/null 2>&1 || useradd -m -s /bin/sh "$user"
# Some clouds make root change its password at the first login, key or not.
chage -d "$(date +%Y-%m-%d)" "$user" 2>/dev/null || true
base64 -d >/var/lib/longshore-init/init.sh <<'END-OF-INIT'
{init}
END-OF-INIT
sh /var/lib/longshore-init/init.sh
rm -f /var/lib/longshore-init/init.sh
# Last, so that nobody can log in before the init script has ended.
home="$(eval echo "~$user")"
mkdir -p "$home/.ssh"
printf '\\n%s\\n' {key} >>"$home/.ssh/authorized_keys"
chmod 700 "$home/.ssh"
chmod 600 "$home/.ssh/authorized_keys"
chown -R "$user" "$home/.ssh"
! command -v restorecon >/dev/null || restorecon -R "$home/.ssh"
"""

_USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


def user_data(*, init_command: str, public_key: str, user: str) -> str:
    """Return the script that runs `init_command` as root and then lets `user` in with the key.

    A user who is not there is made, without further rights. Raises `CloudError` when it is longer
    than clouds take, or the user has no name that a system could have.
    """
    if not _USER_NAME.fullmatch(user):
        raise CloudError(f"no instance can have a user {user!r}; mend ssh.user")
    encoded = base64.encodebytes(init_command.encode()).decode().strip()
    script = _SCRIPT.format(user=shlex.quote(user), init=encoded, key=shlex.quote(public_key))
    size = len(script.encode())
    if size > LARGEST_BYTES:
        raise CloudError(
            f"the user data would have {size} bytes, and clouds take {LARGEST_BYTES}: shorten"
            " pool.init_command, or let it fetch its larger parts"
        )
    return script

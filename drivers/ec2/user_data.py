"""The user data of a new instance: what cloud-init does before anybody can log in; pure.

Its parts are a boothook that closes the gate before sshd starts, a line of cloud-config that keeps
root's key from opening it, and a script. The script does what every boot needs (scratch space, and
who may speak to the metadata service), runs the init command, and opens the gate at its end,
however the init command ended. An instance whose scratch or user is missing ends itself instead,
with the reason on its console.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never

from longshore.drivers.ec2.power import POWER_OFF
from longshore.drivers.errors import CloudError

LIMIT_BYTES: Final = 16_384

_GZIP_WINDOW: Final = 31
_PLAIN: Final = re.compile(r"[\t\n -~]*")
_MOST_WAIT_S: Final = 120
_READY: Final = "/var/lib/cloud/instance/longshore-ready"

_GATE: Final = f"""#cloud-boothook
#!/bin/sh
# PAM lets nobody but root in while this file is there.
[ -e {_READY} ] || echo 'Longshore is preparing this instance.' >/etc/nologin
"""

_CLOUD_CONFIG: Final = """#cloud-config
disable_root: true
"""

_FAIL: Final = f"""_ls_fail() {{
  echo "longshore: $1; this instance ends itself" | tee /dev/console
  {POWER_OFF}
  exit 1
}}
"""

# Root is 0. The rule is for sockets of this machine; packets of containers have a network of their
# own and end at the hop limit. Its protocol keeps systemd-networkd from removing it.
METADATA_RULES: Final = """
_ls_forbid() {
  [ "$1" -le "$2" ] || return 0
  _ls_rule="to 169.254.169.254/32 uidrange $1-$2 prohibit priority 99"
  ip rule del $_ls_rule 2>/dev/null
  ip rule add $_ls_rule protocol kernel || ip rule add $_ls_rule
}
_ls_uid=$(id -u "$_ls_user") || _ls_fail "there is no user $_ls_user: correct ssh.user"
_ls_forbid 1 $((_ls_uid - 1)) && _ls_forbid $((_ls_uid + 1)) 4294967294 ||
  _ls_fail "the metadata service cannot be shut off: install iproute2, or set metadata_for_all"
"""

BLANK_DISKS: Final = """
_ls_blank_disks() {
  lsblk -dnbpo NAME,SIZE,MODEL | sort | while read -r _ls_name _ls_size _ls_model; do
    case "$_ls_name" in /dev/loop* | /dev/ram* | /dev/zram* | /dev/sr* | /dev/md*) continue ;; esac
    case "$_ls_model" in *"Instance Storage"*) _ls_kind=store ;; *) _ls_kind=ebs ;; esac
    [ "$_ls_kind" = "$_ls_wanted" ] || continue
    [ "$_ls_kind" = store ] || [ "$_ls_size" = "$_ls_bytes" ] || continue
    [ "$(lsblk -no NAME "$_ls_name" | wc -l)" -eq 1 ] || continue
    blkid -p "$_ls_name" >/dev/null 2>&1
    [ $? -eq 2 ] || continue
    echo "$_ls_name $_ls_size"
  done
}
"""
"""Shell that lists the whole disks of the wanted kind that hold nothing at all, with their bytes.

`_ls_wanted` is `ebs` or `store`, `_ls_bytes` the exact size of an EBS volume. Only exit status 2 of
`blkid` means that it looked and found nothing.
"""

SCRATCH: Final = f"""{BLANK_DISKS}
_ls_stripe() {{
  command -v mdadm >/dev/null || _ls_fail \\
    "several disks make up its scratch: install mdadm, or set scratch.instance_store to false"
  mdadm --create /dev/md/longshore --run --level=0 --raid-devices=$# "$@" >&2 ||
    _ls_fail "its disks cannot be joined"
  readlink -f /dev/md/longshore
}}
_ls_choose() {{
  _ls_disks=$(_ls_blank_disks)
  [ -n "$_ls_disks" ] || return 1
  set -- $_ls_disks
  if [ "$_ls_wanted" = ebs ] || [ $# -eq 2 ] || [ "$2" -ge "$_ls_bytes" ]; then
    echo "$1"
  else
    _ls_stripe $(echo "$_ls_disks" | cut -d' ' -f1)
  fi
}}
! command -v mdadm >/dev/null || mdadm --assemble --scan >/dev/null 2>&1
_ls_disk=$(blkid -L longshore)
_ls_waited=0
while [ -z "$_ls_disk" ]; do
  if _ls_new=$(_ls_choose); then
    mkfs.ext4 -q -F -L longshore -m 0 "$_ls_new" || _ls_fail "$_ls_new cannot be formatted"
    _ls_disk=$_ls_new
  fi
  [ "$_ls_waited" -lt {_MOST_WAIT_S} ] || [ -n "$_ls_disk" ] || _ls_fail \\
    "no blank disk for its scratch appears (wanted: $_ls_wanted, $_ls_bytes bytes)"
  [ -n "$_ls_disk" ] || sleep 1
  _ls_waited=$((_ls_waited + 1))
done
_ls_top=/mnt/longshore-scratch
mkdir -p "$_ls_top" && mount -o noatime "$_ls_disk" "$_ls_top" || _ls_fail "no scratch is mounted"
_ls_bind() {{
  if [ ! -d "$_ls_top/$1" ]; then
    rm -rf "$_ls_top/$1.new"
    mkdir -p "$2" && cp -a "$2" "$_ls_top/$1.new" && mv "$_ls_top/$1.new" "$_ls_top/$1" ||
      _ls_fail "$2 cannot be put on its scratch"
  fi
  mkdir -p "$2" && mount --bind "$_ls_top/$1" "$2" || _ls_fail "$2 is not on its scratch"
}}
_ls_home=$(getent passwd "$_ls_user" | cut -d: -f6)
[ -n "$_ls_home" ] || _ls_fail "there is no user $_ls_user: correct ssh.user"
_ls_runner=$_ls_home/.longshore
[ "$_ls_user" != root ] || _ls_runner=/var/lib/longshore
_ls_bind 0 "$_ls_runner"
chown "$_ls_user" "$_ls_runner" && chmod 700 "$_ls_runner"
"""

# cloud-init gives root the key with a command that turns people away: sshd takes the first line of
# a key, so that one goes.
LET_IN: Final = """
_ls_home=$(getent passwd "$_ls_user" | cut -d: -f6)
[ -n "$_ls_home" ] || _ls_fail "there is no user $_ls_user: correct ssh.user"
_ls_keys=$_ls_home/.ssh/authorized_keys
mkdir -p "$_ls_home/.ssh" && touch "$_ls_keys" || _ls_fail "$_ls_user cannot have our key"
{ grep -vF "${_ls_key#* }" "$_ls_keys"; printf '%s\\n' "$_ls_key"; } >"$_ls_keys.longshore"
mv -f "$_ls_keys.longshore" "$_ls_keys" || _ls_fail "$_ls_user cannot have our key"
chmod 700 "$_ls_home/.ssh"
chmod 600 "$_ls_keys"
chown "$_ls_user:$(id -gn "$_ls_user")" "$_ls_home/.ssh" "$_ls_keys"
! command -v restorecon >/dev/null || restorecon -R "$_ls_home/.ssh"
if [ "$_ls_user" = root ] && command -v sshd >/dev/null &&
  sshd -T 2>/dev/null | grep -qixE 'permitrootlogin (no|forced-commands-only)'; then
  # The first value counts, also before what the file includes.
  sed -i '1i PermitRootLogin prohibit-password' /etc/ssh/sshd_config
  systemctl reload sshd 2>/dev/null || systemctl reload ssh
fi
"""


class Storage(Enum):
    """Where an instance's scratch space is: nowhere, on an EBS volume, or on the host's disks."""

    NONE = "none"
    VOLUME = "ebs"
    STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The scratch space to be made; `size_bytes` is exact for a volume, the least for a store.

    `directories` lie on it beside that of the runner.
    """

    storage: Storage = Storage.NONE
    size_bytes: int = 0
    directories: tuple[str, ...] = ()


def user_data(
    *,
    init_command: str,
    public_key: str,
    ssh_user: str,
    scratch: Scratch,
    metadata_for_all: bool,
) -> bytes:
    """Return user data, compressed; the same for the same values.

    Raises `CloudError` when it is longer than EC2 takes.
    """
    every_boot = _every_boot(ssh_user, scratch, metadata_for_all=metadata_for_all)
    script = _first_boot(every_boot, init_command, public_key)
    parts = (
        ("longshore-gate", "cloud-boothook", _GATE),
        ("longshore-config", "cloud-config", _CLOUD_CONFIG),
        ("longshore-first-boot", "x-shellscript", script),
    )
    packed = _packed(_multipart(parts))
    if len(packed) > LIMIT_BYTES:
        raise CloudError(
            f"the instance's user data would be {len(packed)} bytes, and EC2 takes {LIMIT_BYTES}:"
            " shorten pool.init_command, or have it fetch what it needs"
        )
    return packed


def _every_boot(ssh_user: str, scratch: Scratch, *, metadata_for_all: bool) -> str:
    """Return the script of every boot, which ends with an error when the instance is of no use."""
    pieces = [f"#!/bin/sh\numask 022\n{_FAIL}_ls_user={shlex.quote(ssh_user)}\n"]
    if not metadata_for_all:
        pieces.append(METADATA_RULES)
    match scratch.storage:
        case Storage.NONE:
            pass
        case Storage.VOLUME | Storage.STORE:
            wanted = f"_ls_wanted={scratch.storage.value} _ls_bytes={scratch.size_bytes}\n"
            binds = [
                f"_ls_bind {number} {shlex.quote(path)}\n"
                for number, path in enumerate(scratch.directories, start=1)
            ]
            pieces += [wanted, SCRATCH, *binds]
        case _:
            assert_never(scratch.storage)
    return "".join([*pieces, "exit 0\n"])


def _first_boot(every_boot: str, init_command: str, public_key: str) -> str:
    """Return the script of the first boot; `_ls_user` in it is set by the same line as above."""
    user_line = next(line for line in every_boot.splitlines() if line.startswith("_ls_user="))
    return (
        f"#!/bin/sh\numask 077\nHOME=/root\nexport HOME\n{_FAIL}{user_line}\n"
        f"_ls_key={shlex.quote(' '.join(public_key.split()[:2]))}\n"
        "mkdir -p /var/lib/cloud/scripts/per-boot\n"
        f"{_file('/var/lib/cloud/scripts/per-boot/longshore', every_boot)}"
        "chmod 700 /var/lib/cloud/scripts/per-boot/longshore\n"
        # It has said why, and has turned the power off.
        "/var/lib/cloud/scripts/per-boot/longshore || exit 1\n"
        f"{_file('/run/longshore-init', init_command)}"
        "( cd / && exec sh /run/longshore-init ) </dev/null\n"
        "_ls_status=$?\n"
        "rm -f /run/longshore-init\n"
        '[ "$_ls_status" -eq 0 ] ||\n'
        '  echo "longshore: the init command ended with status $_ls_status" | tee /dev/console\n'
        f"{LET_IN}"
        f": >{_READY}\n"
        "rm -f /etc/nologin\n"
    )


def _file(path: str, content: str) -> str:
    """Return shell that writes `content`, whatever is in it, and a line's end behind it."""
    mark = f"LONGSHORE_{hashlib.sha256(content.encode()).hexdigest()[:24]}"
    return f"cat >{path} <<'{mark}'\n{content}\n{mark}\n"


def _multipart(parts: tuple[tuple[str, str, str], ...]) -> str:
    """Return a MIME message of (name, subtype of text, content) parts."""
    content = "".join(text for _, _, text in parts)
    boundary = f"longshore-{hashlib.sha256(content.encode()).hexdigest()[:32]}"
    lines = [f'Content-Type: multipart/mixed; boundary="{boundary}"', "MIME-Version: 1.0", ""]
    for name, subtype, text in parts:
        # cloud-init reads the message as text, and would spoil what is not ASCII; but what is
        # encoded is packed worse.
        plain = _PLAIN.fullmatch(text) is not None
        lines += [
            f"--{boundary}",
            f'Content-Type: text/{subtype}; charset="utf-8"',
            "MIME-Version: 1.0",
            f"Content-Transfer-Encoding: {'7bit' if plain else 'base64'}",
            f'Content-Disposition: attachment; filename="{name}"',
            "",
            text if plain else base64.encodebytes(text.encode()).decode(),
        ]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _packed(text: str) -> bytes:
    """Return text as gzip packs it, without a time: a request that is repeated must be the same."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(text.encode()) + packer.flush()

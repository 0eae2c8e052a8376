"""What the bed's machines do of their user data: all of it is looked through, a part of it is run.

The rest would make a machine of this one: it writes to /etc, formats disks and changes routes.
"""

from __future__ import annotations

import base64
import email
import email.policy
import gzip
import re
import subprocess

MOST_BYTES = 16_384

_PARTS = {
    "longshore-gate": "text/cloud-boothook",
    "longshore-config": "text/cloud-config",
    "longshore-first-boot": "text/x-shellscript",
}
_SCRIPTS = ("longshore-gate", "longshore-first-boot")
_INIT = re.compile(
    r"^cat >/run/longshore-init <<'(?P<mark>\w+)'\n(?P<script>.*?)\n(?P=mark)$",
    re.DOTALL | re.MULTILINE,
)
# The guards stand first on the search path, and nowhere else.
_BEYOND_GUARDS = re.compile(
    r"/(usr/)?s?bin/(halt|ip6?tables|mkfs|mount|nft|parted|poweroff|reboot|shutdown|systemctl)\b"
)


def parts_of(user_data: str) -> dict[str, str]:
    """Return the parts of user data by name, as cloud-init would find them.

    `user_data` is what the call carries, in Base64. Raises `AssertionError` for what EC2 or
    cloud-init would not take.
    """
    packed = base64.b64decode(user_data, validate=True)
    assert 0 < len(packed) <= MOST_BYTES, f"EC2 takes no {len(packed)} bytes of user data"
    message = email.message_from_bytes(gzip.decompress(packed), policy=email.policy.default)
    assert message.is_multipart(), "the user data has no parts"
    parts: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_filename() or ""
        assert part.get_content_type() == _PARTS.get(name), f"{name}: {part.get_content_type()}"
        parts[name] = part.get_content()
    assert list(parts) == list(_PARTS), f"the user data has the parts {list(parts)}"
    for name in _SCRIPTS:
        check = subprocess.run(
            ["sh", "-n"], input=parts[name].encode(), stderr=subprocess.PIPE, check=False
        )
        assert check.returncode == 0, f"{name}: {check.stderr.decode(errors='replace')}"
    return parts


def init_script(user_data: str, authorized_key: str) -> str:
    """Return the init command in a machine's user data, which may be run on this machine.

    Raises `AssertionError` when the user data is not as it must be: `authorized_key`, that of the
    launch's key pair, must be let in by it too.
    """
    parts = parts_of(user_data)
    first_boot = parts["longshore-first-boot"]
    key = " ".join(authorized_key.split()[:2])
    assert key, "the launch names no key pair"
    assert key in first_boot, "the user data lets in another key than the launch"
    found = _INIT.search(first_boot)
    assert found is not None, "the user data has no init command"
    script = found["script"]
    assert not _BEYOND_GUARDS.search(script), "the init command goes past the guards"
    return script

"""Where notifications may go: what may be wrong with that, the key of each, and what is shown.

A webhook's address is often a secret itself, since whoever has it can post there: it is shown
without its path. Its key is in a file of its own, as `whsec_` and base64 (Standard Webhooks).
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from longshore.dispatcher.config.driver_parameters import HIDDEN
from longshore.dispatcher.config.hosts import address, is_loopback, is_public
from longshore.dispatcher.config.model import Config, NotificationsConfig, WebhookConfig
from longshore.dispatcher.input.problems import Problems, element, member
from longshore.drivers.errors import ConfigError

_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)
_FILE_BYTES_MOST = 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(
    r"(?!.{254})[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_MAKE_ONE = 'make one with `echo "whsec_$(openssl rand -base64 32)"`'


def check_notifications(config: Config, problems: Problems) -> None:
    """Add what is wrong with the hosts and the webhooks to `problems`."""
    told = config.notifications
    for number, host in enumerate(told.hosts):
        if why := _host_problem(host):
            problems.add(element("notifications.hosts", number), why)
    for name, each in told.webhooks.items():
        path = member("notifications.webhooks", name)
        if not _NAME.fullmatch(name):
            said = (
                "has a bad name: use 1 to 63 letters, digits, '_' and '-', a letter or digit first"
            )
            problems.add(path, said)
        if why := _url_problem(each.url, told):
            problems.add(f"{path}.url", why)
        try:
            webhook_key(path, each)
        except ConfigError as error:
            problems.extend(error.problems)


def webhook_key(path: str, webhook: WebhookConfig) -> bytes:
    """Return the key that is in the file of a webhook, which is read now.

    `path` is where the webhook stands in the configuration. Raises `ConfigError`, with the remedy,
    where the file cannot be read, can be read by everybody, or holds no key.
    """
    where, file = f"{path}.secret_file", Path(webhook.secret_file)
    if not webhook.secret_file:
        raise ConfigError([(where, f"must name the file of its key: {_MAKE_ONE}")])
    try:
        with file.open("rb") as opened:
            content, mode = opened.read(_FILE_BYTES_MOST + 1), file.stat().st_mode
    except OSError as error:
        what = f"{file} cannot be read ({error.strerror}): {_MAKE_ONE} as this user"
        raise ConfigError([(where, what)]) from error
    if mode & 0o027:
        what = f"{file} (mode {mode & 0o777:04o}) is open to others: chmod 600 {file}"
        raise ConfigError([(where, what)])
    try:
        key = base64.b64decode(content.strip().removeprefix(_PREFIX.encode()), validate=True)
    except binascii.Error:
        key = b""
    if not content.startswith(_PREFIX.encode()) or len(key) not in _KEY_BYTES:
        what = f"{file} holds no key, which is whsec_ and base64 of 24 to 64 bytes: {_MAKE_ONE}"
        raise ConfigError([(where, what)])
    return key


def shown_webhooks(told: NotificationsConfig, *, secrets: bool) -> dict[str, Any]:
    """Return the webhooks as YAML and JSON can say them; without their paths unless `secrets`."""
    return {
        name: {
            "url": each.url if secrets else f"{_origin(each.url)}/{HIDDEN}",
            "secret_file": each.secret_file,
        }
        for name, each in told.webhooks.items()
    }


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _host_problem(host: str) -> str:
    found = address(host)
    if found is not None:
        is_fine = is_public(found) or is_loopback(host)
        return "" if is_fine else "is a private address, to which nothing is sent"
    if _HOST.fullmatch(host):
        return ""
    return "must be the name of a host in small letters, such as hooks.example.org, without a port"


def _url_problem(url: str, told: NotificationsConfig) -> str:
    if HIDDEN in url:
        return "is what `config show` puts in place of a secret: write the address"
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL, such as https://hooks.example.org/longshore"
    if not host or parts.username is not None or parts.fragment:
        return "must be https://HOST/PATH, without a user or a fragment"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return "must begin with https://: what is sent tells of your spending"
    if host not in told.hosts:
        return f"goes to {host}, which notifications.hosts does not name: add it there"
    return ""

"""What no type can tell of a configuration: whether its values make sense together."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path

from longshore.dispatcher.config.budgets import check_budgets
from longshore.dispatcher.config.driver_parameters import check_driver
from longshore.dispatcher.config.elsewhere import CHECKS_ELSEWHERE
from longshore.dispatcher.config.hosts import is_loopback
from longshore.dispatcher.config.model import AuthMode, Config, EngineName
from longshore.dispatcher.config.policies import check_policies
from longshore.dispatcher.config.single_sign_on import check_single_sign_on
from longshore.dispatcher.config.store_url import store_path
from longshore.dispatcher.config.tls import server_context
from longshore.dispatcher.config.types import check_factors, check_type
from longshore.dispatcher.config.unix_socket import path_problem
from longshore.dispatcher.input.problems import Problems, member
from longshore.dispatcher.input.quantities import memory_problem
from longshore.drivers.errors import ConfigError
from longshore.pool.remote.ssh_keys import check_private_key

LOOPBACK_DRIVER = "loopback"
_ON_THIS_MACHINE = frozenset({LOOPBACK_DRIVER, "simulated"})
"""The drivers whose instances are this machine."""
KEY_NAME = "ssh_key"
KEY_FILE_NAME = "secret_keys"

_CLUSTER = re.compile(r"[a-z0-9-]{1,40}")
_TYPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check(config: Config, sound: frozenset[str], problems: Problems) -> None:
    """Add what is wrong with the sections named in `sound` to `problems`.

    The other sections could not be read and hold defaults, of which nothing is said.
    """
    for section, look in _CHECKS.items():
        if section in sound:
            look(config, problems)
    if "driver" in sound:
        check_driver(config, sound, problems)
    if {"cost", "instance_types"} <= sound:
        check_factors(config, problems)
    if {"driver", "instance_types"} <= sound:
        _check_types_for_driver(config, problems)


def _check_cluster(config: Config, problems: Problems) -> None:
    if not _CLUSTER.fullmatch(config.cluster):
        problems.add("cluster", "must be 1 to 40 of a-z, 0-9 and -: it becomes part of cloud tags")


def _check_listen(config: Config, problems: Problems) -> None:
    try:
        _, port = split_listen(config.listen)
    except ValueError as error:
        problems.add("listen", str(error))
        return
    if not 0 <= port <= 65535:
        problems.add("listen", f"has port {port}: it must be from 0 (any free one) to 65535")


def split_listen(listen: str) -> tuple[str, int]:
    """Return the host and the port of "HOST:PORT" or "[IPV6]:PORT"; raises `ValueError`."""
    host, colon, port = listen.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or not re.fullmatch("[0-9]{1,5}", port) or (":" in host) > bracketed:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420")
    return (host[1:-1] if bracketed else host), int(port)


_ANOTHER_USER = "name an unprivileged user, or say engine.name: podman"


def auth_mode(config: Config) -> AuthMode:
    """Return whether callers must say who they are: as configured, else by who can reach it.

    Whoever comes by a proxy comes from its address, which is mostly a loopback one.
    """
    if config.auth.mode is not None:
        return config.auth.mode
    if config.tls.terminated_elsewhere:
        return AuthMode.REQUIRED
    try:
        host, _ = split_listen(config.listen)
    except ValueError:
        return AuthMode.OPEN
    return AuthMode.OPEN if is_loopback(host) else AuthMode.REQUIRED


def _check_auth(config: Config, problems: Problems) -> None:
    """Add what would let in more than who is meant to come."""
    check_single_sign_on(config.auth, auth_mode(config), problems)
    try:
        host, _ = split_listen(config.listen)
    except ValueError:
        return
    _check_open(config, host, problems)
    if not is_loopback(host):
        _check_away(config, problems)
    if auth_mode(config) is AuthMode.REQUIRED:
        _check_required(config, problems)


def _check_open(config: Config, host: str, problems: Problems) -> None:
    if config.auth.mode is not AuthMode.OPEN:
        return
    if not is_loopback(host):
        problems.add(
            "auth.mode",
            f"cannot be open where listen is {config.listen}: everybody who reaches it would be an"
            " admin; leave it out, or listen on a loopback address such as 127.0.0.1:8420",
        )
    elif config.tls.terminated_elsewhere:
        problems.add(
            "auth.mode",
            "cannot be open where tls.terminated_elsewhere is true: everybody whom the proxy lets"
            " through would be an admin; leave it out, or set auth.mode: required",
        )


def _check_away(config: Config, problems: Problems) -> None:
    tls = config.tls
    if not tls.certificate and not tls.terminated_elsewhere:
        problems.add(
            "tls",
            f"is needed where listen is {config.listen}: tokens would be read on their way; name"
            " tls.certificate and tls.private_key, or say tls.terminated_elsewhere: true where a"
            " proxy in front has TLS",
        )


def _check_required(config: Config, problems: Problems) -> None:
    if why := path_problem(config.data_dir):
        problems.add("data_dir", f"{why}; the first token is made over it")
    if config.engine.name not in (EngineName.AUTO, EngineName.PROCESS):
        return
    if not config.engine.run_as:
        problems.add(
            "engine.run_as",
            "is needed where callers say who they are: every container without an image would run"
            f" as the runner's own user, who can read what is everybody's; {_ANOTHER_USER}",
        )
    elif why := privilege_of(config, os.geteuid()):
        problems.add("engine.run_as", f"is {config.engine.run_as}, {why}; {_ANOTHER_USER}")


def privilege_of(config: Config, own_uid: int) -> str:
    """Return what containers without an image could do as `engine.run_as`, "" for nothing much.

    `own_uid` is the server's. Users of instances elsewhere are known by name alone.
    """
    run_as = config.engine.run_as
    if config.driver.name in _ON_THIS_MACHINE:
        try:
            uid = pwd.getpwnam(run_as).pw_uid
        except KeyError:
            return ""  # nothing is started as a user that there is not
        if uid in (0, own_uid):
            return "who is an admin by the Unix socket in data_dir, as every container would be"
    elif run_as in ("root", config.ssh.user):
        return "the runner's own user, who can read what is everybody's on an instance"
    return ""


def _check_tls(config: Config, problems: Problems) -> None:
    tls = config.tls
    given = (tls.certificate, tls.private_key)
    if any(given) and tls.terminated_elsewhere:
        problems.add("tls", "has both certificate and terminated_elsewhere: give one of the two")
    if any(given) and not all(given):
        missing = "private_key" if tls.certificate else "certificate"
        problems.add(f"tls.{missing}", "is missing: the certificate and its key go together")
    elif all(given):
        try:
            server_context(tls)
        except ConfigError as error:
            problems.extend(error.problems)


def _check_store(config: Config, problems: Problems) -> None:
    if config.store:
        try:
            store_path(config.store)
        except ValueError as error:
            problems.add("store", str(error))


def _check_directories(config: Config, problems: Problems) -> None:
    for name, text in (("data_dir", config.data_dir), ("log_dir", config.log_dir)):
        if text and Path(text).exists() and not Path(text).is_dir():
            problems.add(name, f"{text} is not a directory: remove it, or name another")
        elif text and Path(text).exists() and Path(text).stat().st_mode & 0o002:
            problems.add(name, f"everybody on this machine can write to {text}: chmod o-w {text}")


def _check_ssh(config: Config, problems: Problems) -> None:
    ssh = config.ssh
    ours = Path(config.data_dir) / KEY_NAME
    if ssh.private_key and not Path(ssh.private_key).is_file() and Path(ssh.private_key) != ours:
        problems.add(
            "ssh.private_key",
            f"there is no file {ssh.private_key}: make it with `ssh-keygen -t ed25519 -N ''`, or"
            " leave the option out and one is made",
        )
    elif Path(ssh.private_key).is_file():
        try:
            check_private_key(Path(ssh.private_key))
        except ConfigError as error:
            problems.extend(error.problems)
    if ssh.heartbeat_timeout_s <= ssh.heartbeat_interval_s:
        problems.add(
            "ssh.heartbeat_timeout_s",
            f"must be longer than heartbeat_interval_s ({ssh.heartbeat_interval_s:g}), or every"
            " session is given up at once; four times it is a good choice",
        )


def _check_pool(config: Config, problems: Problems) -> None:
    pool = config.pool
    if pool.orphan_timeout_s <= pool.boot_timeout_s:
        problems.add(
            "pool.orphan_timeout_s",
            f"must be longer than boot_timeout_s ({pool.boot_timeout_s:g}), or an instance that"
            " boots slowly powers itself off; three times it is a good choice",
        )


def _check_defaults(config: Config, problems: Problems) -> None:
    if wrong := memory_problem(config.defaults.memory):
        problems.add("defaults.memory", wrong)


def _check_instance_types(config: Config, problems: Problems) -> None:
    for name, each in config.instance_types.items():
        path = member("instance_types", name)
        if not _TYPE_NAME.fullmatch(name):
            problems.add(
                path, "has a bad name: use 1 to 63 letters, digits, '.', '_' and '-', no '-' first"
            )
            continue
        check_type(path, each, problems)


def _check_types_for_driver(config: Config, problems: Problems) -> None:
    if not config.instance_types and config.driver.name != LOOPBACK_DRIVER:
        problems.add(
            "instance_types",
            f"is empty, but the driver {config.driver.name} needs to know what it may create: add"
            " at least one type",
        )


_CHECKS: dict[str, Callable[[Config, Problems], None]] = {
    "cluster": _check_cluster,
    "listen": _check_listen,
    "store": _check_store,
    "data_dir": _check_directories,
    "ssh": _check_ssh,
    "pool": _check_pool,
    "defaults": _check_defaults,
    "instance_types": _check_instance_types,
    "auth": _check_auth,
    "tls": _check_tls,
    "policies": check_policies,
    "budgets": check_budgets,
    **CHECKS_ELSEWHERE,
}

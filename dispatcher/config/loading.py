"""Loading the configuration: everything wrong with it is reported at once, with the remedy."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace
from sqlalchemy.engine import URL

from longshore.dispatcher.config.check import (
    KEY_FILE_NAME,
    KEY_NAME,
    LOOPBACK_DRIVER,
    auth_mode,
    check,
    split_listen,
)
from longshore.dispatcher.config.cost_files import check_cost_files
from longshore.dispatcher.config.file import read_mapping
from longshore.dispatcher.config.machine import LOCAL_TYPE, default_data_dir, local_instance_type
from longshore.dispatcher.config.model import AuthConfig, Config, TypeConfig
from longshore.dispatcher.config.store_url import store_path
from longshore.dispatcher.config.types import as_instance_type, terms_of
from longshore.dispatcher.cost.prices import AS_TOLD, PriceTerms
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.dispatcher.input.problems import Problems, ProblemsFull, did_you_mean, member
from longshore.dispatcher.input.quantities import CpuMillis
from longshore.dispatcher.input.validation import decode_all
from longshore.drivers.errors import ConfigError, InvalidRequest
from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import driver

__all__ = [
    "Config",
    "auth_mode",
    "default_config",
    "driver_parameters",
    "instance_types",
    "listen_address",
    "load_config",
    "plain",
]

STORE_NAME = "longshore.db"


def load_config(path: str | Path | None) -> Config:
    """Return the configuration in the YAML file `path` (None: all defaults), complete and checked.

    Paths in it that are not absolute are taken from the directory of the file. Nothing is made or
    written. Raises `ConfigError` with all problems.
    """
    if path is None:
        return default_config()
    file = Path(path).absolute()
    return _configured(read_mapping(file), file.parent)


def default_config() -> Config:
    """Return the configuration of an empty file; raises `ConfigError` as `load_config` does."""
    return _configured({}, Path.cwd())


def scheduler_settings(config: Config) -> SchedulerSettings:
    """Return the scheduler's settings, with no more instances than the driver can ever have.

    A machine of one's own that is full is no quota of a cloud, which may be raised meanwhile: no
    other is asked for.
    """
    most = driver(config.driver.name).most_instances
    if most is None or config.scheduler.max_instances <= most:
        return config.scheduler
    return replace(config.scheduler, max_instances=most)


def instance_types(config: Config) -> tuple[InstanceType, ...]:
    """Return the configured instance types by name.

    Without any, this machine is the one type of the loopback driver, measured now.
    """
    if not config.instance_types and config.driver.name == LOOPBACK_DRIVER:
        return (local_instance_type(Path(config.data_dir)),)
    return tuple(
        as_instance_type(name, each, terms_of(name, each, config.cost))
        for name, each in sorted(config.instance_types.items())
    )


def price_terms(config: Config) -> dict[str, PriceTerms]:
    """Return what a price that is told of each type becomes, by its name."""
    terms = {name: terms_of(name, t, config.cost) for name, t in config.instance_types.items()}
    return terms or {LOCAL_TYPE: AS_TOLD}


def driver_parameters(config: Config) -> msgspec.Struct:
    """Return the driver's parameters as a value of the driver's own type.

    Raises `ConfigError`, which a configuration that was loaded does not.
    """
    wanted = driver(config.driver.name).parameters
    try:
        return decode_all(wanted, config.driver.parameters, "driver.parameters")
    except InvalidRequest as error:
        raise ConfigError(error.problems) from error


def listen_address(config: Config) -> tuple[str, int]:
    """Return the host and the port to listen on; port 0 is any free one."""
    return split_listen(config.listen)


def plain(config: Config) -> dict[str, Any]:
    """Return the configuration as YAML and JSON can say it; loading that gives it again."""
    values: dict[str, Any] = msgspec.to_builtins(config, enc_hook=_plain_quantity)
    return values


def _plain_quantity(value: object) -> object:
    match value:
        case CpuMillis():
            return value // 1000 if value % 1000 == 0 else value / 1000
        case int():
            return int(value)
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case _:
            return str(value)


def _configured(raw: dict[Any, Any], base: Path) -> Config:
    problems = Problems()
    try:
        # An option without a value, as `pool:` with every line below it commented out, is absent.
        given = {key: value for key, value in raw.items() if value is not None}
        sections = _decoded(given, problems)
        config = _located(Config(**sections), base)
        unread = given.keys() - sections.keys()
        check(config, frozenset(Config.__struct_fields__) - unread, problems)
        if "cost" not in unread:
            check_cost_files(config, problems)
    except ProblemsFull:
        raise ConfigError(problems.listed()) from None
    if problems:
        raise ConfigError(problems.listed())
    return _with_key(config)


def _decoded(given: dict[Any, Any], problems: Problems) -> dict[str, Any]:
    """Return the sections that could be read; what is wrong with the others joins `problems`."""
    sections: dict[str, Any] = {}
    known = get_type_hints(Config, include_extras=True)
    for key, value in given.items():
        if key not in known:
            problems.add(member("", str(key)), f"is not known: {did_you_mean(str(key), known)}")
        elif key == "instance_types" and isinstance(value, dict):
            types = _decoded_types(value, problems)
            if types or not value:
                sections[key] = types
        else:
            try:
                sections[key] = decode_all(known[key], value, key)
            except InvalidRequest as error:
                problems.extend(error.problems)
    return sections


def _decoded_types(value: dict[Any, Any], problems: Problems) -> dict[str, TypeConfig]:
    types: dict[str, TypeConfig] = {}
    for name, each in value.items():
        path = member("instance_types", str(name))
        if not isinstance(name, str):
            problems.add(path, "has a name that is not text: put it in quotes")
            continue
        try:
            types[name] = decode_all(TypeConfig, each, path)
        except InvalidRequest as error:
            problems.extend(error.problems)
    return types


def _located(config: Config, base: Path) -> Config:
    """Return `config` with every path absolute; a private key that is not named stays so."""
    data_dir = _absolute(config.data_dir, base) if config.data_dir else default_data_dir()
    key, key_file = config.ssh.private_key, config.secrets.key_file
    return replace(
        config,
        data_dir=str(data_dir),
        log_dir=str(_absolute(config.log_dir, base) if config.log_dir else data_dir / "logs"),
        store=_absolute_store(config.store, base) if config.store else _url(data_dir / STORE_NAME),
        ssh=replace(config.ssh, private_key=str(_absolute(key, base)) if key else ""),
        tls=replace(
            config.tls,
            certificate=_absolute_or_none(config.tls.certificate, base),
            private_key=_absolute_or_none(config.tls.private_key, base),
        ),
        auth=_absolute_auth(config.auth, base),
        secrets=replace(
            config.secrets, key_file=str(_absolute(key_file, base)) if key_file else ""
        ),
        cost=replace(
            config.cost,
            export=replace(
                config.cost.export,
                dir=str(_absolute(config.cost.export.dir, base)) if config.cost.export.dir else "",
            ),
        ),
        notifications=replace(
            config.notifications,
            webhooks={
                name: replace(each, secret_file=_absolute_or_none(each.secret_file, base))
                for name, each in config.notifications.webhooks.items()
            },
        ),
        traces=replace(
            config.traces, headers_file=_absolute_or_none(config.traces.headers_file, base)
        ),
    )


def _with_key(config: Config) -> Config:
    key = config.ssh.private_key or str(Path(config.data_dir) / KEY_NAME)
    key_file = config.secrets.key_file or str(Path(config.data_dir) / KEY_FILE_NAME)
    return replace(
        config,
        ssh=replace(config.ssh, private_key=key),
        secrets=replace(config.secrets, key_file=key_file),
    )


def _absolute_auth(auth: AuthConfig, base: Path) -> AuthConfig:
    login = auth.issuer.login
    file = _absolute_or_none(login.client_secret_file, base)
    login = replace(login, client_secret_file=file)
    return replace(auth, issuer=replace(auth.issuer, login=login))


def _absolute(text: str, base: Path) -> Path:
    return base / Path(text).expanduser()


def _absolute_or_none(text: str, base: Path) -> str:
    return str(_absolute(text, base)) if text else ""


def _absolute_store(url: str, base: Path) -> str:
    try:
        return _url(_absolute(str(store_path(url)), base))
    except ValueError:
        # Not ours to judge here: `check` says what is wrong with it.
        return url


def _url(path: Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)

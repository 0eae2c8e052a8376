"""The configuration: what is refused, all at once and with what remedy, and what it becomes."""

from __future__ import annotations

import pwd
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import inspect

from longshore.dispatcher.config.check import auth_mode, privilege_of
from longshore.dispatcher.config.loading import (
    Config,
    default_config,
    driver_parameters,
    instance_types,
    listen_address,
    load_config,
    plain,
    scheduler_settings,
)
from longshore.dispatcher.config.model import (
    AuthMode,
    DriverConfig,
    EngineConfig,
    SshConfig,
    TypeConfig,
)
from longshore.dispatcher.domain.containers import SchedulerSettings
from longshore.drivers.errors import ConfigError
from longshore.drivers.interface import Resources
from longshore.pool.remote.ssh_keys import load_or_create_private_key

EXAMPLE = Path(__file__).parents[2] / "config.example.yml"

SMALL = {"cpus": 2, "memory": "4GiB", "price_per_hour": 0.1}
SIMULATED = {"driver": {"name": "simulated"}, "instance_types": {"small": SMALL}}


def write(directory: Path, text: str | dict[str, Any]) -> Path:
    path = directory / "longshore.yml"
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text), encoding="utf-8")
    return path


def problems(directory: Path, text: str | dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load_config(write(directory, text))
    return [(path.replace(f"{directory}/", ""), what) for path, what in caught.value.problems]


def small(**changes: object) -> dict[str, Any]:
    return {"instance_types": {"small": {**SMALL, **changes}}}


@pytest.mark.parametrize(
    ("text", "path", "what"),
    [
        ("pool:\n  idle: [1,\n", "longshore.yml:3:1", "is not valid YAML"),
        ("cluster: a\nlisten: x\ncluster: b\n", "longshore.yml:3:1", "in line 1 already"),
        ("pool:\n  image: a\n  image: b\n", "longshore.yml:3:3", "in line 2 already"),
        ("- a\n", "longshore.yml", "must be a mapping"),
        ("a: !!python/object:os.system x\n", "longshore.yml:1:4", "is not valid YAML"),
        ("a: \x00", "longshore.yml", "is not valid YAML"),
        ({"clutser": "a"}, "clutser", 'did you mean "cluster"?'),
        ({1: 2}, "1", "is not known"),
        ({"pool": {"idle_timeout": 5}}, "pool.idle_timeout", 'did you mean "idle_timeout_s"?'),
        ({"pool": []}, "pool", "must be an object, not a list"),
        ({"pool": {"idle_timeout_s": -1}}, "pool.idle_timeout_s", "must be at least 0.01"),
        ({"pool": {"idle_timeout_s": float("nan")}}, "pool.idle_timeout_s", "finite"),
        ({"pool": {"boot_probe_command": True}}, "pool.boot_probe_command", "must be text"),
        ({"pool": {"boot_timeout_s": 1800}}, "pool.orphan_timeout_s", "must be longer than boot"),
        ({"pool": {"orphan_timeout_s": 600}}, "pool.orphan_timeout_s", "three times it is a good"),
        ({"scheduler": {"profile": "x"}}, "scheduler.profile", "must be one of"),
        ({"cluster": "Upper"}, "cluster", "must be 1 to 40 of a-z"),
        ({"listen": "0.0.0.0:80"}, "tls", "tokens would be read on their way"),
        ({"listen": "example.org:80"}, "tls", "tokens would be read on their way"),
        ({"listen": "0.0.0.0:80"}, "engine.run_as", "name an unprivileged user"),
        ({"auth": {"mode": "required"}}, "engine.run_as", "name an unprivileged user"),
        (
            {"listen": "0.0.0.0:80", "auth": {"mode": "open"}},
            "auth.mode",
            "everybody who reaches it would be an admin",
        ),
        (
            {"tls": {"terminated_elsewhere": True}, "auth": {"mode": "open"}},
            "auth.mode",
            "everybody whom the proxy lets through would be an admin",
        ),
        ({"tls": {"terminated_elsewhere": True}}, "engine.run_as", "callers say who they are"),
        (
            {"auth": {"mode": "required"}, "data_dir": "/tmp/" + 100 * "a"},
            "data_dir",
            "of a Unix socket has 107 at most",
        ),
        ({"tls": {"certificate": "x.pem"}}, "tls.private_key", "is missing"),
        ({"tls": {"private_key": "x.pem"}}, "tls.certificate", "is missing"),
        (
            {"tls": {"certificate": "x.pem", "private_key": "y.pem"}},
            "tls.certificate",
            "cannot be read: No such file",
        ),
        (
            {"tls": {"certificate": "x.pem", "terminated_elsewhere": True}},
            "tls",
            "give one of the two",
        ),
        ({"audit": {"kept_s": 1}}, "audit.kept_s", "3600"),
        ({"listen": "127.0.0.1"}, "listen", "must be HOST:PORT"),
        ({"listen": "::1:80"}, "listen", "must be HOST:PORT"),
        ({"listen": "127.0.0.1:65536"}, "listen", "from 0 (any free one) to 65535"),
        ({"store": "postgresql://x/y"}, "store", "must be sqlite:///PATH"),
        ({"store": "sqlite://"}, "store", "must name a file"),
        ({"store": "nonsense"}, "store", "is not a URL"),
        ({"driver": {"name": "nimbus"}}, "driver.name", "there is no driver 'nimbus'"),
        ({"driver": {"parameters": {"x": 1}}}, "driver.parameters.x", "is not known"),
        ({"driver": {"name": "simulated"}}, "instance_types", "add at least one type"),
        ({"ssh": {"private_key": "absent"}}, "ssh.private_key", "there is no file"),
        ({"ssh": {"heartbeat_timeout_s": 5}}, "ssh.heartbeat_timeout_s", "must be longer"),
        ({"ssh": {"port": 0}}, "ssh.port", "at least 1"),
        ({"limits": {"list_items": 0}}, "limits.list_items", "at least 1"),
        ({"limits": {"request_bytes": "4G"}}, "limits.request_bytes", "is ambiguous"),
        (small(memory="4 gigs"), "instance_types.small.memory", "is not a size"),
        (small(memory=-1), "instance_types.small.memory", "must not be negative"),
        (small(memory=2**61), "instance_types.small.memory", "larger than any machine"),
        (small(memory=0), "instance_types.small.memory", "must be more than 0"),
        (small(cpus=0), "instance_types.small.cpus", "must be more than 0"),
        (small(cpus=0.0001), "instance_types.small.cpus", "at most three decimals"),
        (small(price_per_hour="cheap"), "instance_types.small.price_per_hour", "must be a price"),
        (small(price_per_hour=-1), "instance_types.small.price_per_hour", "from 0 to"),
        (small(gpus=-1), "instance_types.small.gpus", "at least 0"),
        (small(reserve={"memory": "4GiB"}), "instance_types.small.reserve.memory", "reserve less"),
        (small(reserve={"cpus": 3}), "instance_types.small.reserve.cpus", "reserve less"),
        (small(reserve={"disk": 1}), "instance_types.small.reserve.disk", "reserve less"),
        (
            small(resources={"fpga": 1}, reserve={"resources": {"fpga": 2}}),
            "instance_types.small.reserve.resources.fpga",
            "more than the instance has",
        ),
        (small(resources={"gpus": 1}), "instance_types.small.resources.gpus", "of its own"),
        ({"instance_types": {"a b": SMALL}}, 'instance_types["a b"]', "has a bad name"),
        ({"instance_types": {7: SMALL}}, "instance_types.7", "put it in quotes"),
        ({"instance_types": {"small": {}}}, "instance_types.small.cpus", "is missing"),
    ],
)
def test_one_problem_is_named_with_its_path(
    tmp_path: Path, text: str | dict[str, Any], path: str, what: str
) -> None:
    found = problems(tmp_path, text)
    named = [sentence for place, sentence in found if place == path]
    assert named, found
    assert what in named[0]


@pytest.mark.parametrize(
    ("driver", "run_as", "own", "told"),
    [
        ("loopback", "nobody", "daemon", ""),
        ("loopback", "nobody", "nobody", "an admin by the Unix socket"),
        ("loopback", "root", "daemon", "an admin by the Unix socket"),
        ("loopback", "no-such-user", "daemon", ""),
        ("simulated", "nobody", "nobody", "an admin by the Unix socket"),
        ("ec2", "nobody", "nobody", ""),
        ("ec2", "root", "nobody", "the runner's own user"),
        ("ec2", "ubuntu", "nobody", "the runner's own user"),
    ],
)
def test_no_container_runs_as_a_user_who_is_an_admin(
    driver: str, run_as: str, own: str, told: str
) -> None:
    config = Config(
        driver=DriverConfig(name=driver),
        engine=EngineConfig(run_as=run_as),
        ssh=SshConfig(user="ubuntu"),
    )
    said = privilege_of(config, pwd.getpwnam(own).pw_uid)
    assert told in said
    assert bool(told) == bool(said)


@pytest.mark.parametrize("listen", ["127.0.0.1:8420", "[::1]:8420", "0.0.0.0:8420"])
def test_nobody_is_an_admin_for_coming_by_a_proxy(tmp_path: Path, listen: str) -> None:
    config = {
        "listen": listen,
        "tls": {"terminated_elsewhere": True},
        "engine": {"run_as": "nobody"},
    }
    assert auth_mode(load_config(write(tmp_path, config))) is AuthMode.REQUIRED
    [(path, said)] = problems(tmp_path, {**config, "auth": {"mode": "open"}})
    assert path == "auth.mode"
    assert "would be an admin" in said


def test_a_server_whose_containers_would_be_admins_is_refused(tmp_path: Path) -> None:
    config = {"auth": {"mode": "required"}, "engine": {"run_as": "root"}}
    for each in (config, {**SIMULATED, **config}):
        [(path, said)] = problems(tmp_path, each)
        assert path == "engine.run_as"
        assert "is root, who is an admin by the Unix socket" in said
        assert "name an unprivileged user, or say engine.name: podman" in said


def test_the_servers_own_user_is_not_asked_about_where_images_are_needed(tmp_path: Path) -> None:
    config = {"auth": {"mode": "required"}, "engine": {"name": "podman", "run_as": "root"}}
    assert load_config(write(tmp_path, config)).engine.run_as == "root"


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        {
            "listen": "127.0.0.1",
            "stoer": "x",
            "driver": {"name": "nimbus"},
            "instance_types": {"small": {**SMALL, "memory": "x"}, "large": {**SMALL, "cpus": 0}},
            "pool": {"idle_timeout_s": 0, "image": 5},
            "ssh": {"private_key": "absent"},
        },
    )
    assert sorted(path for path, _ in found) == [
        "driver.name",
        "instance_types.large.cpus",
        "instance_types.small.memory",
        "listen",
        "pool.idle_timeout_s",
        "pool.image",
        "ssh.private_key",
        "stoer",
    ]


def test_a_broken_type_is_no_missing_type(tmp_path: Path) -> None:
    found = problems(tmp_path, {**SIMULATED, "instance_types": {"small": {**SMALL, "cpus": "x"}}})
    assert [path for path, _ in found] == ["instance_types.small.cpus"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.yml", tmp_path):
        with pytest.raises(ConfigError) as caught:
            load_config(path)
        assert caught.value.problems[0][0] == str(path)
    huge = tmp_path / "huge.yml"
    huge.write_bytes(b"#" * 2_000_000)
    with pytest.raises(ConfigError, match="is larger than"):
        load_config(huge)


def test_nothing_and_absent_sections_give_the_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "")) == default_config()
    assert load_config(write(tmp_path, "pool:\nlisten:\n")) == default_config()
    assert load_config(None) == default_config()


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    key = tmp_path / "key"
    load_or_create_private_key(key)
    config = load_config(
        write(
            tmp_path, {"data_dir": "data", "store": "sqlite:///x.db", "ssh": {"private_key": "key"}}
        )
    )
    assert config.data_dir == str(tmp_path / "data")
    assert config.log_dir == str(tmp_path / "data" / "logs")
    assert config.store == f"sqlite:///{tmp_path}/x.db"
    assert config.ssh.private_key == str(key)
    plainer = load_config(write(tmp_path, {"data_dir": "data"}))
    assert plainer.store == f"sqlite:///{tmp_path}/data/longshore.db"
    assert plainer.ssh.private_key == str(tmp_path / "data" / "ssh_key")


def test_no_more_instances_are_asked_for_than_a_driver_can_ever_have() -> None:
    """A machine of one's own that is full is not told as a cloud's quota, tried each minute."""
    machine = Config(driver=DriverConfig(name="loopback"), scheduler=SchedulerSettings())
    assert scheduler_settings(machine).max_instances == 1
    cloud = Config(driver=DriverConfig(name="ec2"), scheduler=SchedulerSettings(max_instances=7))
    assert scheduler_settings(cloud).max_instances == 7


def test_the_loopback_driver_takes_this_machine() -> None:
    (local,) = instance_types(default_config())
    assert local.name == "local"
    assert local.price_usd_per_hour == 0
    assert Resources(cpu_millis=1000, memory_bytes=2**28, disk_bytes=2**20).fits_in(local.resources)


def test_types_become_what_drivers_know(tmp_path: Path) -> None:
    config = load_config(
        write(
            tmp_path,
            {
                "driver": {"name": "simulated"},
                "instance_types": {
                    "small": {
                        **SMALL,
                        "cpus": 0.5,
                        "labels": {"b": "2", "a": "1"},
                        "resources": {"fpga": 2},
                        "reserve": {"cpus": 0.25, "memory": "1GiB"},
                    },
                    "big": {**SMALL, "provider_type": "m7i", "preemptible": True},
                },
            },
        )
    )
    big, little = instance_types(config)
    assert (big.name, big.provider_type, big.preemptible) == ("big", "m7i", True)
    assert (little.name, little.provider_type) == ("small", "small")
    assert little.price_usd_per_hour == Decimal("0.1")
    assert type(little.price_usd_per_hour) is Decimal
    assert little.labels == (("a", "1"), ("b", "2"))
    assert little.allocatable == Resources(
        cpu_millis=250, memory_bytes=3 * 2**30, custom=(("fpga", 2),)
    )


def test_drivers_get_parameters_of_their_own_type(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, {**SIMULATED, "driver": {"name": "simulated", "parameters": {"quota": 3}}})
    )
    assert msgspec.to_builtins(driver_parameters(config))["quota"] == 3


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:8420", ("::1", 8420)),
    ],
)
def test_loopback_addresses_are_served(
    tmp_path: Path, listen: str, address: tuple[str, int]
) -> None:
    assert listen_address(load_config(write(tmp_path, {"listen": listen}))) == address


def test_what_is_shown_loads_again(tmp_path: Path) -> None:
    shown = {**SIMULATED, "defaults": {"cpus": 0.125}, "data_dir": "data"}
    config = load_config(write(tmp_path, shown))
    assert plain(config)["defaults"]["cpus"] == 0.125
    assert load_config(write(tmp_path, plain(config))) == config


def options(info: inspect.Type, path: str = "") -> Iterator[str]:
    """Yield the dotted path of every option below a struct."""
    if isinstance(info, inspect.Metadata):
        info = info.type
    if not isinstance(info, inspect.StructType):
        yield path
        return
    for option in info.fields:
        yield from options(
            option.type, f"{path}.{option.encode_name}" if path else option.encode_name
        )


def given(value: object, info: inspect.Type, path: str = "") -> Iterator[str]:
    if isinstance(info, inspect.StructType) and isinstance(value, dict):
        for option in info.fields:
            if option.encode_name in value:
                below = f"{path}.{option.encode_name}" if path else option.encode_name
                yield from given(value[option.encode_name], option.type, below)
    else:
        yield path


def test_the_example_shows_every_option_with_its_default() -> None:
    raw = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    info = inspect.type_info(Config)
    assert list(given(raw, info)) == list(options(info))
    assert load_config(EXAMPLE) == default_config()


def test_the_example_of_a_type_shows_every_option_with_its_default(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    block = text[text.index("# instance_types:\n") :].split("\n\n")[0]
    block = re.sub("^# ?", "", block, flags=re.MULTILINE)
    raw = yaml.safe_load(block)["instance_types"]["small"]
    info = inspect.type_info(TypeConfig)
    assert sorted(given(raw, info)) == sorted(options(info))
    shown = load_config(write(tmp_path, block)).instance_types["small"]
    bare = {name: raw[name] for name in ("cpus", "memory", "price_per_hour", "provider_type")}
    least = load_config(write(tmp_path, {"instance_types": {"small": bare}}))
    assert shown == least.instance_types["small"]


def test_what_the_server_would_refuse_is_refused_by_the_check(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    config: dict[str, Any] = {
        "data_dir": "open",
        "ssh": {"private_key": "key"},
        "pool": {"cloud_call_timeout_s": 60},
        "driver": {"name": "ec2", "parameters": {"connect_timeout_s": 1}},
    }
    told = dict(problems_in(tmp_path, config))
    assert "holds no OpenSSH private key" in told["ssh.private_key"]
    assert f"chmod o-w {tmp_path}/open" in told["data_dir"]
    assert "may take 61 s" in told["driver.parameters.read_timeout_s"]
    config["pool"] = {"cloud_call_timeout_s": 61}
    assert "driver.parameters.read_timeout_s" not in dict(problems_in(tmp_path, config))


def problems_in(tmp_path: Path, config: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """Return what is wrong with a configuration."""
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, config))
    return caught.value.problems

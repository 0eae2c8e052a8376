"""Budgets and notifications in a configuration: what is wrong with them, what they become."""

from __future__ import annotations

import base64
import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.config.budgets import budgets_of
from longshore.dispatcher.config.hosts import is_public
from longshore.dispatcher.config.loading import load_config, plain
from longshore.dispatcher.config.model import Config, WebhookConfig
from longshore.dispatcher.config.notifications import webhook_key
from longshore.dispatcher.cost.budgets import CostBudget, Included, StopRule
from longshore.dispatcher.cost.money import GRAINS_PER_USD
from longshore.dispatcher.domain.budgets import BudgetScope
from longshore.dispatcher.domain.periods import PeriodKind
from longshore.drivers.errors import ConfigError

KEY = bytes(range(32))
URL = "https://hooks.example.org/services/T0/secret-part"
GOOD = {"project": "vision", "limit": 5000}


def write(directory: Path, config: dict[str, Any]) -> Path:
    path = directory / "longshore.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def key_file(directory: Path, content: bytes = b"whsec_" + base64.b64encode(KEY)) -> Path:
    path = directory / "hook.key"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def loaded(directory: Path, config: dict[str, Any]) -> Config:
    return load_config(write(directory, config))


def problems(directory: Path, config: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        loaded(directory, config)
    return list(caught.value.problems)


def notifications(**changes: Any) -> dict[str, Any]:
    hook = {"url": URL, "secret_file": "hook.key"}
    usual = {"hosts": ["hooks.example.org"], "webhooks": {"finance": hook}}
    return {"notifications": {**usual, **changes}}


def to(url: str, *hosts: str) -> dict[str, Any]:
    hook = {"url": url, "secret_file": "hook.key"}
    return notifications(hosts=[*hosts], webhooks={"finance": hook})


@pytest.mark.parametrize(
    ("changes", "path", "sentence"),
    [
        ({"project": ""}, "budgets.b", "is nobody's: give one of project, user and label"),
        ({"user": "ann"}, "budgets.b", "has project and user: give one of"),
        ({"project": "", "label": "team"}, "budgets.b.label", "must be KEY=VALUE"),
        (
            {"project": "", "label": "team=a"},
            "budgets.b.label",
            'is not kept apart by the ledger: add "team" to cost.labels',
        ),
        ({"limit": 0}, "budgets.b.limit", "must be more than 0"),
        ({"limit": "much"}, "budgets.b.limit", "must be a number"),
        ({"tz": "Mars/Base"}, "budgets.b.tz", "there is no time zone 'Mars/Base'"),
        ({"warn": [80, 50]}, "budgets.b.warn", "must ascend"),
        ({"warn": [50, 50]}, "budgets.b.warn", "must ascend"),
        ({"warn": [0]}, "budgets.b.warn[0]", "at least 1"),
        ({"period": "fortnight"}, "budgets.b.period", '"quarter"'),
        ({"stop": "all"}, "budgets.b.stop", "must be one of"),
        ({"includes": "all"}, "budgets.b.includes", "must be one of"),
    ],
)
def test_a_budget_that_makes_no_sense_is_told(
    tmp_path: Path, changes: dict[str, Any], path: str, sentence: str
) -> None:
    [(place, said)] = problems(tmp_path, {"budgets": {"b": {**GOOD, **changes}}})
    assert place == path
    assert sentence in said


def test_a_bad_name_of_a_budget_is_told(tmp_path: Path) -> None:
    for name in ("a.b", "-a", "a" * 64):
        [(path, said)] = problems(tmp_path, {"budgets": {name: GOOD}})
        assert path in {f"budgets.{name}", f'budgets["{name}"]'}
        assert "has a bad name" in said


def test_budgets_become_what_the_core_knows_by_name(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        {
            "budgets": {
                "vision": GOOD,
                "ann": {
                    "user": "ann",
                    "limit": 0.1,
                    "period": "week",
                    "tz": "Europe/Berlin",
                    "includes": "with_shared",
                    "warn": [],
                    "forecast": False,
                    "stop": "new",
                },
                "team": {"label": "team=a=b", "limit": 1},
            },
            "cost": {"labels": ["team"]},
        },
    )
    ann, team, vision = budgets_of(config)
    assert ann == CostBudget(
        name="ann",
        scope=BudgetScope.USER,
        whose="ann",
        limit_grains=GRAINS_PER_USD // 10,
        period=PeriodKind.WEEK,
        time_zone="Europe/Berlin",
        included=Included.WITH_SHARED,
        warn=(),
        forecast=False,
        stop=StopRule.NEW,
    )
    assert (team.scope, team.whose) == (BudgetScope.LABEL, "team=a=b")
    assert vision == CostBudget(
        name="vision",
        scope=BudgetScope.PROJECT,
        whose="vision",
        limit_grains=5000 * GRAINS_PER_USD,
        period=PeriodKind.MONTH,
    )


@pytest.mark.parametrize(
    ("config", "path", "sentence"),
    [
        (to("http://hooks.example.org/", "hooks.example.org"), "url", "must begin with https://"),
        (to("ftp://127.0.0.1/", "127.0.0.1"), "url", "must begin with https://"),
        (to("https://evil.example.org/", "example.org"), "url", "does not name: add it there"),
        (to("https://hooks.example.org.evil/", "hooks.example.org"), "url", "does not name"),
        (to("https://a:b@hooks.example.org/", "hooks.example.org"), "url", "without a user"),
        (to("https://hooks.example.org/#x", "hooks.example.org"), "url", "or a fragment"),
        (to("https://[x", "hooks.example.org"), "url", "is not a URL"),
        (to("https://hooks.example.org:x", "hooks.example.org"), "url", "is not a URL"),
        (to("hooks.example.org", "hooks.example.org"), "url", "must be https://HOST/PATH"),
    ],
)
def test_a_webhook_that_goes_astray_is_told(
    tmp_path: Path, config: dict[str, Any], path: str, sentence: str
) -> None:
    key_file(tmp_path)
    [(place, said)] = problems(tmp_path, config)
    assert place == f"notifications.webhooks.finance.{path}"
    assert sentence in said


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("10.0.0.5", "is a private address"),
        ("169.254.169.254", "is a private address"),
        ("::ffff:10.0.0.1", "is a private address"),
        ("Hooks.example.org", "in small letters"),
        ("hooks.example.org:443", "without a port"),
        ("https://hooks.example.org", "the name of a host"),
        ("*.example.org", "the name of a host"),
        ("", "the name of a host"),
    ],
)
def test_a_host_that_is_none_or_private_is_told(tmp_path: Path, host: str, sentence: str) -> None:
    [(place, said)] = problems(tmp_path, notifications(hosts=[host], webhooks={}))
    assert place == "notifications.hosts[0]"
    assert sentence in said


@pytest.mark.parametrize(
    "config",
    [
        to(URL, "other.example.org", "hooks.example.org"),
        to("https://HOOKS.example.org:8443/x?y=z", "hooks.example.org"),
        to("http://localhost:9000/", "localhost"),
        to("http://127.0.0.1:9000/", "127.0.0.1"),
        to("http://[::1]:9000/", "::1"),
        to("https://1.1.1.1/", "1.1.1.1"),
    ],
)
def test_a_webhook_that_makes_sense_is_taken(tmp_path: Path, config: dict[str, Any]) -> None:
    key = key_file(tmp_path)
    hook = loaded(tmp_path, config).notifications.webhooks["finance"]
    assert hook.secret_file == str(key)
    assert webhook_key("x", hook) == KEY


@pytest.mark.parametrize(
    ("content", "mode", "sentence"),
    [
        (b"whsec_" + base64.b64encode(KEY), 0o644, "is open to others: chmod 600"),
        (base64.b64encode(KEY), 0o600, "holds no key"),
        (b"whsec_" + base64.b64encode(KEY[:23]), 0o600, "holds no key"),
        (b"whsec_" + base64.b64encode(KEY * 3), 0o600, "holds no key"),
        (b"whsec_???", 0o600, "holds no key"),
        (b"", 0o600, "holds no key"),
    ],
    ids=["open", "no prefix", "short", "long", "no base64", "empty"],
)
def test_a_key_that_is_none_is_told_and_never_shown(
    tmp_path: Path, content: bytes, mode: int, sentence: str
) -> None:
    path = key_file(tmp_path, content)
    path.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        webhook_key("hooks.a", WebhookConfig(url=URL, secret_file=str(path)))
    [(place, said)] = caught.value.problems
    assert (place, sentence in said) == ("hooks.a.secret_file", True)
    assert not content or content.decode() not in said


def test_a_key_that_is_not_there_is_told(tmp_path: Path) -> None:
    for file, sentence in (("", "must name the file"), ("absent", "cannot be read (No such file")):
        hook = {"url": URL, "secret_file": file}
        [(_, said)] = problems(tmp_path, notifications(webhooks={"finance": hook}))
        assert sentence in said
        assert "openssl rand -base64 32" in said


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    config = {
        "budgets": {"b": {"limit": 1, "tz": "x"}, "c": {**GOOD, "warn": [2, 1]}},
        **notifications(hosts=["10.0.0.1"]),
    }
    assert sorted(path for path, _ in problems(tmp_path, config)) == [
        "budgets.b",
        "budgets.b.tz",
        "budgets.c.warn",
        "notifications.hosts[0]",
        "notifications.webhooks.finance.secret_file",
        "notifications.webhooks.finance.url",
    ]


def test_the_path_of_a_webhook_is_shown_to_who_asks_for_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key_file(tmp_path)
    path = write(tmp_path, notifications())
    assert main(["config", "show", "--json", "-c", str(path)]) == 0
    said = capsys.readouterr().out
    hidden = json.loads(said)["notifications"]["webhooks"]["finance"]["url"]
    assert hidden == "https://hooks.example.org/(hidden; --secrets shows it)"
    assert "secret-part" not in said
    assert base64.b64encode(KEY).decode() not in said
    [(_, sentence)] = problems(tmp_path, to(hidden, "hooks.example.org"))
    assert sentence == "is what `config show` puts in place of a secret: write the address"
    path = write(tmp_path, notifications())
    assert main(["config", "show", "--json", "--secrets", "-c", str(path)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["notifications"]["webhooks"]["finance"]["url"] == URL
    assert shown == json.loads(json.dumps(plain(load_config(path))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("1.1.1.1", True), ("2606:4700::1111", True), ("64:ff9b::1.1.1.1", True)),
        *(("::ffff:1.1.1.1", True), ("2002:101:101::1", True)),
        *(("10.1.2.3", False), ("172.16.0.1", False), ("192.168.1.1", False)),
        *(("127.0.0.1", False), ("0.1.2.3", False), ("::", False), ("::1", False)),
        *(("169.254.169.254", False), ("fe80::1", False), ("fec0::1", False), ("fd00::1", False)),
        *(("100.64.0.1", False), ("224.0.0.1", False), ("239.1.1.1", False), ("ff02::1", False)),
        *(("240.0.0.1", False), ("255.255.255.255", False), ("198.18.0.1", False)),
        *(("192.0.2.1", False), ("2001:db8::1", False), ("::10.0.0.1", False)),
        *(("::ffff:10.0.0.1", False), ("::ffff:127.0.0.1", False), ("64:ff9b::10.0.0.1", False)),
        *(("2002:a00:1::1", False), ("2001:0:a00:1::f5ff:fffe", False)),
        ("ff0e::1", False),
    ],
)
def test_which_addresses_are_of_the_internet(text: str, expected: bool) -> None:
    assert is_public(ipaddress.ip_address(text)) is expected

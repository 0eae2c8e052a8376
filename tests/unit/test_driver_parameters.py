"""A driver's own parameters: checked by the driver, explained, and with their secrets hidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.config.driver_parameters import HIDDEN
from longshore.dispatcher.config.loading import load_config
from longshore.drivers.errors import ConfigError

Capture = pytest.CaptureFixture[str]
SECRETS: dict[str, Any] = {
    "account": {"user": "me", "password": "hush-1"},
    "pin": 4711,
    "more": {"a": "hush-2"},
    "keys": ["hush-3"],
    "options": {"token": "hush-4"},
    "maybe": "hush-5",
}


def written(directory: Path, *, zone: object = "here", gpus: int = 0, **parameters: Any) -> str:
    path = directory / "longshore.yml"
    document = {
        "data_dir": str(directory / "data"),
        "driver": {
            "name": "tests.typed_driver:DRIVER",
            "parameters": {"zone": zone, **parameters},
        },
        "instance_types": {
            "small": {"cpus": 1, "memory": "2GiB", "price_per_hour": 0.1, "gpus": gpus}
        },
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(path)


def problems_of(path: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return caught.value.problems


def test_what_the_driver_finds_wrong_is_told_with_paths_all_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, zone="moon", gpus=1, account={"user": "root"})
    assert problems_of(path) == [
        ("driver.parameters.zone", "is too far away: take another"),
        ("driver.parameters.account.user", "must not be root"),
        ("instance_types.small", "moon has no GPUs: leave them out"),
    ]


@pytest.mark.parametrize(
    ("images", "image", "problems"),
    [
        ({}, "", ['instance_types["m7i.large"]']),
        ({"arm64": "ami-0123456789abcdef0"}, "", ['instance_types["m7i.large"]']),
        ({"x86_64": "ami-0123456789abcdef0"}, "", []),
        ({}, "ami-0123456789abcdef0", []),
    ],
)
def test_a_type_for_which_no_image_is_named_is_told_of(
    tmp_path: Path, images: dict[str, str], image: str, problems: list[str]
) -> None:
    path = tmp_path / "longshore.yml"
    document = {
        "data_dir": str(tmp_path / "data"),
        "driver": {"name": "ec2", "parameters": {"region": "eu-central-1", "images": images}},
        "pool": {"image": image},
        "instance_types": {
            "m7i.large": {
                "provider_type": "m7i.large",
                "cpus": 2,
                "memory": "8GiB",
                "price_per_hour": 0.1,
            }
        },
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    if problems:
        assert [(path, "no image" in what) for path, what in problems_of(str(path))] == [
            (each, True) for each in problems
        ]
    else:
        assert load_config(str(path)).pool.image == image


@pytest.mark.parametrize("command", [["config", "check"], ["serve"], ["driver", "test"]])
def test_each_command_that_uses_the_driver_tells_it(
    tmp_path: Path, capsys: Capture, command: list[str]
) -> None:
    assert main([*command, "-c", written(tmp_path, gpus=1)]) == 2
    assert "instance_types.small: here has no GPUs: leave them out" in capsys.readouterr().err


def test_a_driver_whose_check_breaks_is_a_problem_without_what_it_said(tmp_path: Path) -> None:
    path = written(tmp_path, zone="mars", **SECRETS)
    [(place, what)] = problems_of(path)
    assert place == "driver.name"
    assert "`check` of typed raises RuntimeError" in what
    assert "hush" not in what


@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"account": {"password": 12345678}}, "account.password"),
        ({"pin": 47110815}, "pin"),
        ({"pin": "hush"}, "pin"),
        ({"more": {"a": 12345678}}, "more.a"),
        ({"keys": [12345678]}, "keys[0]"),
        ({"options": 12345678}, "options"),
        ({"maybe": 12345678}, "maybe"),
    ],
)
def test_a_secret_is_in_no_error(tmp_path: Path, parameters: dict[str, Any], place: str) -> None:
    [(path, what)] = problems_of(written(tmp_path, **parameters))
    assert path == f"driver.parameters.{place}"
    assert what.startswith("must be")
    for part in ("12345678", "47110815", "hush"):
        assert part not in what


def test_a_number_where_a_secret_text_is_wanted_is_told_how_to_mend_it(tmp_path: Path) -> None:
    [(_, what)] = problems_of(written(tmp_path, account={"password": 12345678}))
    assert what.startswith("must be text: put it in quotes")


def test_what_is_no_secret_is_told_as_ever(tmp_path: Path) -> None:
    assert problems_of(written(tmp_path, zone=5)) == [
        ("driver.parameters.zone", "must be text, not 5: put it in quotes")
    ]


def shown(capsys: Capture, path: str, *options: str) -> dict[str, Any]:
    assert main(["config", "show", "-c", path, "--json", *options]) == 0
    parameters: dict[str, Any] = json.loads(capsys.readouterr().out)["driver"]["parameters"]
    return parameters


def test_show_hides_what_is_secret_and_fills_in_defaults(tmp_path: Path, capsys: Capture) -> None:
    assert shown(capsys, written(tmp_path, **SECRETS)) == {
        "zone": "here",
        "account": {"user": "me", "password": HIDDEN},
        "pin": HIDDEN,
        "more": {"a": HIDDEN},
        "keys": [HIDDEN],
        "options": {"token": HIDDEN},
        "maybe": HIDDEN,
        "market": "demand",
        "share": 0.5,
    }


def test_show_shows_secrets_that_are_asked_for(tmp_path: Path, capsys: Capture) -> None:
    seen = shown(capsys, written(tmp_path, **SECRETS), "--secrets")
    assert {name: seen[name] for name in SECRETS} == SECRETS


def test_a_secret_that_is_not_given_is_seen_to_be_absent(tmp_path: Path, capsys: Capture) -> None:
    seen = shown(capsys, written(tmp_path))
    assert (seen["account"]["password"], seen["maybe"], seen["keys"]) == ("", None, [])


def test_show_explains_what_the_driver_takes(tmp_path: Path, capsys: Capture) -> None:
    assert main(["config", "show", "-c", written(tmp_path, **SECRETS)]) == 0
    text = capsys.readouterr().out
    assert "hush" not in text
    lines = [line[2:].strip() for line in text.splitlines() if line.startswith("#")]
    assert lines[:10] == [
        "driver.parameters of typed, no cloud at all, for tests:",
        "zone: text, required",
        'account.user: text, default "nobody"',
        'account.password: text, default "", secret',
        "pin: whole number from 1000 to 9999, default 1000, secret",
        "more: mapping of text to text, default {}",
        "keys: list of text, default []",
        "options: mapping of text to anything, default {}, secret",
        "maybe: text or null, default null",
        'market: one of spot, demand, default "demand"',
    ]
    assert 'Where and as whom; `zone` must not be "moon".' in lines


def test_what_show_puts_in_place_of_a_secret_is_not_taken_for_one(
    tmp_path: Path, capsys: Capture
) -> None:
    hidden = shown(capsys, written(tmp_path, **SECRETS | {"pin": 1000}))
    hidden["pin"] = 1000
    found = problems_of(written(tmp_path, **hidden))
    assert [path for path, _ in found] == [
        f"driver.parameters.{name}"
        for name in ("account.password", "keys[0]", "maybe", "more.a", "options")
    ]
    assert all("write the secret" in what for _, what in found)


def test_a_secret_is_hidden_in_whatever_it_lies(tmp_path: Path, capsys: Capture) -> None:
    given = {
        "login": {"password": "hush"},
        "mapped": {"password": "hush"},
        "named": ["me", "hush"],
        "pair": [1, "hush"],
        "some": ["hush"],
    }
    path = tmp_path / "odd.yml"

    def configured(parameters: dict[str, Any]) -> str:
        section = {"name": "tests.typed_driver:ODD", "parameters": parameters}
        types = {"small": {"cpus": 1, "memory": "2GiB", "price_per_hour": 0.1}}
        document = {"data_dir": str(tmp_path), "driver": section, "instance_types": types}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return str(path)

    assert shown(capsys, configured(given), "--secrets") == given
    hidden = shown(capsys, configured(given))
    assert hidden == {
        "login": {"password": HIDDEN},
        "mapped": {"password": HIDDEN},
        "named": ["me", HIDDEN],
        "pair": [1, HIDDEN],
        "some": [HIDDEN],
    }
    assert [place for place, _ in problems_of(configured(hidden))] == [
        f"driver.parameters.{name}"
        for name in ("login.password", "mapped.password", "named[1]", "pair[1]", "some[0]")
    ]


def test_a_driver_without_parameters_says_so(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "empty.yml"
    path.write_text(f"data_dir: {tmp_path}\n", encoding="utf-8")
    assert main(["config", "show", "-c", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "#   there are none"

"""docs/drivers.md: what it shows of code is the example driver's, and its configurations load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshore.dispatcher.config.loading import driver_parameters, instance_types, load_config
from longshore.drivers.registry import Capability, driver, driver_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT.joinpath("docs", "drivers.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "tests" / "example_driver"


def blocks(language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", [*blocks("python"), *blocks("toml")])
def test_code_on_the_page_is_that_of_the_example(block: str) -> None:
    files = [*sorted(EXAMPLE.glob("*.py")), EXAMPLE / "pyproject.toml"]
    assert any(block in file.read_text(encoding="utf-8") for file in files), block


def test_there_is_code_on_the_page() -> None:
    assert len(blocks("python")) >= 8
    assert len(blocks("toml")) == 1


@pytest.mark.parametrize("block", blocks("yaml"))
def test_configurations_on_the_page_are_good(block: str, tmp_path: Path) -> None:
    file = tmp_path / "longshore.yml"
    file.write_text(block, encoding="utf-8")
    config = load_config(file)
    info, parameters = driver(config.driver.name), driver_parameters(config)
    if info.check is not None:
        assert list(info.check(parameters)) == []
    faults = [
        each
        for each in instance_types(config)
        if info.fault_of_type is not None and info.fault_of_type(parameters, each)
    ]
    assert faults == []


def test_every_capability_is_on_the_page() -> None:
    rows = set(re.findall(r"^\| `([a-z-]+)` \| ", PAGE, re.MULTILINE))
    assert {each.value for each in Capability} <= rows


@pytest.mark.parametrize("name", driver_names())
def test_every_parameter_of_a_driver_is_told(name: str) -> None:
    own = ROOT / "docs" / f"{name}.md"
    example = ROOT.joinpath("config.example.yml").read_text(encoding="utf-8")
    pages = PAGE + (own.read_text(encoding="utf-8") if own.exists() else "")
    told = {
        *re.findall(r"`([a-z_]+)`", pages),
        *re.findall(r"^# +([a-z_0-9]+):", example, re.MULTILINE),
    }
    assert set(driver(name).parameters.__struct_fields__) <= told

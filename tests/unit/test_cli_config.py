"""`longshore config` and how `serve` refuses a configuration."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml

from longshore.dispatcher.cli.commands.main import main
from tests.cli_server import await_true

ROOT = Path(__file__).parent.parent.parent
Capture = pytest.CaptureFixture[str]
GOOD = """\
listen: 127.0.0.1:0
driver: {name: simulated, parameters: {quota: 3}}
instance_types:
  small: {cpus: 1, memory: 2GiB, price_per_hour: 0.05}
engine: {name: process}
"""
BAD = "listn: 5\npool: {idle_timeout_s: -1}\n"


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.yml"
    path.write_text(f"{GOOD}data_dir: {tmp_path / 'data'}\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = tmp_path / "bad.yml"
    path.write_text(BAD, encoding="utf-8")
    return str(path)


def test_init_writes_the_explained_example_once(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "longshore.yml"
    assert main(["config", "init", "-c", str(path)]) == 0
    assert f"longshore serve -c {path}" in capsys.readouterr().out
    text = path.read_text(encoding="utf-8")
    assert text == ROOT.joinpath("config.example.yml").read_text(encoding="utf-8")
    assert text.count("#") > 20
    path.write_text("mine: true\n", encoding="utf-8")
    assert main(["config", "init", "-c", str(path)]) == 1
    assert f"{path} exists. Overwrite it with --force" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine: true\n"
    assert main(["config", "init", "-c", str(path), "--force"]) == 0
    assert path.read_text(encoding="utf-8") == text


def test_init_can_write_to_stdout_and_says_where_it_cannot_write(capsys: Capture) -> None:
    assert main(["config", "init", "-c", "-"]) == 0
    assert isinstance(yaml.safe_load(capsys.readouterr().out), dict | None)
    assert main(["config", "init", "-c", "/nonexistent/longshore.yml"]) == 1
    assert "cannot write /nonexistent/longshore.yml: No such file" in capsys.readouterr().err


def test_the_example_is_in_the_wheel(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packaged = archive.read("longshore/dispatcher/config.example.yml")
    assert packaged == ROOT.joinpath("config.example.yml").read_bytes()


def test_what_init_writes_passes_the_check(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "longshore.yml"
    assert main(["config", "init", "-c", str(path)]) == 0
    assert main(["config", "check", "-c", str(path)]) == 0, capsys.readouterr().err


def test_check_says_ok_with_a_summary(good: str, capsys: Capture) -> None:
    assert main(["config", "check", "-c", good]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == "ok"
    shown = dict(line.split(maxsplit=1) for line in others if not line.startswith("instance"))
    assert (shown["driver"], shown["engine"]) == ("simulated", "process")
    assert "instance types  small" in others


@pytest.mark.parametrize("command", [["config", "check"], ["config", "show"], ["serve"]])
def test_a_bad_configuration_lists_all_problems_and_exits_with_2(
    bad: str, capsys: Capture, command: list[str]
) -> None:
    assert main([*command, "-c", bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, *problems = captured.err.splitlines()
    assert first == "longshore: the configuration has 2 problems"
    assert [problem.split(": ")[0] for problem in problems] == ["  listn", "  pool.idle_timeout_s"]


@pytest.mark.parametrize("command", [["config", "check"], ["config", "show"], ["serve"]])
def test_a_missing_configuration_exits_with_2(capsys: Capture, command: list[str]) -> None:
    assert main([*command, "-c", "/nonexistent/longshore.yml"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "/nonexistent/longshore.yml" in captured.err


def test_show_prints_what_takes_effect_and_can_be_loaded_again(
    good: str, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["config", "show", "-c", good]) == 0
    text = capsys.readouterr().out
    assert main(["config", "show", "-c", good, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert yaml.safe_load(text) == document
    assert document["instance_types"]["small"]["memory"] == 2 * 2**30
    assert document["pool"]["boot_timeout_s"] == 600
    again = tmp_path / "again.yml"
    again.write_text(text, encoding="utf-8")
    assert main(["config", "show", "-c", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_serve_serves_until_it_is_told(good: str, tmp_path: Path) -> None:
    errors = tmp_path / "stderr"
    with errors.open("w") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "longshore", "serve", "-c", good],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=sink,
        )
    try:
        await_true(lambda: "serves at http://" in errors.read_text() or process.poll() is not None)
        assert process.poll() is None, errors.read_text()
        url = errors.read_text().partition("serves at ")[2].split()[0]
        with urllib.request.urlopen(f"{url}/health/live", timeout=60) as answer:  # noqa: S310 - our own server
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, errors.read_text()
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in errors.read_text()


def test_a_port_that_is_taken_is_one_sentence(good: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = Path(good)
        port = taken.getsockname()[1]
        path.write_text(
            path.read_text(encoding="utf-8").replace(":0\n", f":{port}\n"), encoding="utf-8"
        )
        done = subprocess.run(
            [sys.executable, "-m", "longshore", "serve", "-c", good],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ,
        )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"cannot listen on 127.0.0.1:{port}" in last

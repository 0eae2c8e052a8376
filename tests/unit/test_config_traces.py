"""Traces in a configuration: what is wrong with them, what they become, and what is not shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.config.traces import trace_headers, trace_url
from tests.unit.test_config_budgets import loaded, problems, write

URL = "http://127.0.0.1:4318/v1/traces"


def traces(**changes: Any) -> dict[str, Any]:
    return {"traces": {"endpoint": URL, **changes}}


def headers(directory: Path, content: str = "Authorization: Bearer hush\n\nX-Scope: a\n") -> Path:
    path = directory / "headers"
    path.write_text(content)
    path.chmod(0o600)
    return path


def test_traces_are_taken_as_they_are_said(tmp_path: Path) -> None:
    headers(tmp_path)
    told = loaded(tmp_path, traces(headers_file="headers", sample_ratio=0.5)).traces
    assert told.headers_file == str(tmp_path / "headers")
    assert trace_headers(told) == {"Authorization": "Bearer hush", "X-Scope": "a"}
    assert trace_url(told) == URL
    bare = loaded(tmp_path, traces(endpoint="http://127.0.0.1:4318/")).traces
    assert trace_url(bare) == URL
    assert trace_headers(bare) == {}


def test_without_the_packages_the_remedy_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    assert problems(tmp_path, traces()) == [
        (
            "traces.endpoint",
            'needs packages that are not installed: pip install "longshore[otel]"',
        )
    ]
    assert loaded(tmp_path, {}).traces.endpoint == ""


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("collector:4318", "must be http://HOST"),
        ("grpc://collector:4317", "must be http://HOST"),
        ("http://", "must be http://HOST"),
        ("http://[::1", "is not a URL"),
        ("http://c:port/", "is not a URL"),
        ("https://me:hush@c/v1/traces", "no user, query or fragment"),
        ("https://c/v1/traces?key=hush", "no user, query or fragment"),
    ],
)
def test_an_endpoint_that_is_none_is_told(tmp_path: Path, url: str, said: str) -> None:
    [(path, what)] = problems(tmp_path, traces(endpoint=url))
    assert path == "traces.endpoint"
    assert said in what
    assert "hush" not in what


def test_headers_do_not_go_where_they_are_read_on_their_way(tmp_path: Path) -> None:
    headers(tmp_path)
    [(path, what)] = problems(
        tmp_path, traces(endpoint="http://collector:4318/v1/traces", headers_file="headers")
    )
    assert (path, "https://" in what) == ("traces.endpoint", True)
    assert loaded(tmp_path, traces(endpoint="http://collector:4318")).traces.endpoint


def test_headers_that_are_none_are_told_and_never_shown(tmp_path: Path) -> None:
    for content in ("hush\n", "a: b\nA B: hush\n", "a:\n", "a: hu\x01sh\n", f"a: {'h' * 20_000}"):
        headers(tmp_path, content)
        [(path, what)] = problems(tmp_path, traces(headers_file="headers"))
        assert path == "traces.headers_file"
        assert "hush" not in what
        assert "hhh" not in what
    headers(tmp_path).chmod(0o644)
    [(_, what)] = problems(tmp_path, traces(headers_file="headers"))
    assert "chmod 600" in what
    [(_, what)] = problems(tmp_path, traces(headers_file="none"))
    assert "cannot be read" in what
    [(path, what)] = problems(tmp_path, {"traces": {"headers_file": "headers"}})
    assert (path, "is missing" in what) == ("traces.endpoint", True)


def test_what_is_shown_has_no_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headers(tmp_path)
    file = write(tmp_path, traces(headers_file="headers"))
    for options in ([], ["--secrets"]):
        assert main(["config", "show", "--json", "-c", str(file), *options]) == 0
        shown = capsys.readouterr().out
        assert json.loads(shown)["traces"]["endpoint"] == URL
        assert "hush" not in shown

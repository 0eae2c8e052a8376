"""The parts of the command line that need no server: files, options, tables, events, sentences."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import urllib3

from longshore.dispatcher.api.schemas.containers import ContainerAnswer, ReasonAnswer
from longshore.dispatcher.api.schemas.instances import InstanceAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import exit_status, read
from longshore.dispatcher.cli.client import checked_token, checked_url
from longshore.dispatcher.cli.commands.containers import show_fields
from longshore.dispatcher.cli.container_words import attempt_started_at, note, ran_for_s
from longshore.dispatcher.cli.events import Changed, parse
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.render.progress import outcome_line
from longshore.dispatcher.cli.submission import amounts, content, gpus, pairs, read_sources
from longshore.dispatcher.cli.times import moment_of


def container(identifier: str = "c-1", **others: object) -> ContainerAnswer:
    return read({"id": identifier, "state": "queued", **others}, ContainerAnswer)


# ---- files --------------------------------------------------------------------------------------

YAML_ONE = "command: [echo, hi]\nenv: {A: b}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (YAML_ONE, {"command": ["echo", "hi"], "env": {"A": "b"}}),
        ('{"command": ["a"]}', {"command": ["a"]}),
        ("{command: [a]}", {"command": ["a"]}),
        ("- command: [a]\n- command: [b]\n", [{"command": ["a"]}, {"command": ["b"]}]),
        ("- command: [a]\n", [{"command": ["a"]}]),
        ("command: [a]\n---\ncommand: [b]\n", [{"command": ["a"]}, {"command": ["b"]}]),
        ("labels: {day: 2024-01-31, 7: x}\n", {"labels": {"day": "2024-01-31", "7": "x"}}),
    ],
)
def test_a_file_means_what_it_says(tmp_path: Path, text: str, expected: object) -> None:
    path = tmp_path / "containers.yml"
    path.write_text(text, encoding="utf-8")
    assert content(read_sources([str(path)])) == expected


def test_several_files_are_one_list(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yml", tmp_path / "two.json"
    one.write_text("command: [a]\n", encoding="utf-8")
    two.write_text('[{"command": ["b"]}, {"command": ["c"]}]', encoding="utf-8")
    assert content(read_sources([str(one), str(two)])) == [
        {"command": ["a"]},
        {"command": ["b"]},
        {"command": ["c"]},
    ]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"", "empty"),
        (b"just words", "neither an object nor a list"),
        (b"a: [1", "not YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"cpus: .inf", "no such value"),
        (b"!!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_an_unreadable_file_is_a_usage_error(tmp_path: Path, written: bytes, why: str) -> None:
    path = tmp_path / "broken.yml"
    path.write_bytes(written)
    with pytest.raises(CommandFailure, match=why) as caught:
        content(read_sources([str(path)]))
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.sentence


def test_json_files_are_told_what_json_they_lack(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{command: [a]}", encoding="utf-8")
    with pytest.raises(CommandFailure, match="not JSON"):
        content(read_sources([str(path)]))


def test_a_missing_file_and_stdin_twice_are_usage_errors() -> None:
    with pytest.raises(CommandFailure, match="No such file") as caught:
        content(read_sources(["/nonexistent/x.yml"]))
    assert caught.value.exit_code == 2
    with pytest.raises(CommandFailure, match="twice"):
        content(read_sources(["-", "-"]))


def test_a_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.submission.MAX_FILE_BYTES", 2**20)
    path = tmp_path / "large.yml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(CommandFailure, match="larger than 1 MiB"):
        content(read_sources([str(path)]))


# ---- options ------------------------------------------------------------------------------------


def test_pairs_keep_everything_after_the_first_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "mine")
    got = pairs("--env", ["A=b=c", "EMPTY=", "FROM_HERE"], from_environment=True)
    assert got == {"A": "b=c", "EMPTY": "", "FROM_HERE": "mine"}


@pytest.mark.parametrize("argument", ["=x", "NOT_SET_ANYWHERE", ""])
def test_a_pair_without_name_or_value_is_a_usage_error(argument: str) -> None:
    with pytest.raises(CommandFailure) as caught:
        pairs("--env", [argument], from_environment=True)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2", 2),
        ("0", 0),
        ("2,model=a100", {"count": 2, "model": "a100"}),
        ("1,memory=40GiB,model=h/100", {"count": 1, "memory": "40GiB", "model": "h/100"}),
    ],
)
def test_gpus_are_a_number_or_what_each_of_them_is(text: str, wanted: object) -> None:
    assert gpus(text) == wanted


@pytest.mark.parametrize("text", ["", "-1", "a100", "1.5", "2,a100", "2,", "2,model=", "2,cores=1"])
def test_other_gpus_are_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailure) as caught:
        gpus(text)
    assert caught.value.exit_code == 2


def test_amounts_are_whole_numbers() -> None:
    assert amounts("--resource", ["licence=2", "b=0"]) == {"licence": 2, "b": 0}
    for wrong in ("licence", "licence=", "licence=1.5", "licence=-1", "=1"):
        with pytest.raises(CommandFailure, match="--resource"):
            amounts("--resource", [wrong])


def test_what_was_asked_for_is_shown() -> None:
    seen = read(
        {
            "id": "c-1",
            "state": "queued",
            "gpus": {"count": 2, "memory": 40 * 2**30, "model": "a100"},
            "resources": {"licence": 1},
            "constraints": {
                "labels": {"zone": "eu"},
                "instance_types": ["large", "small"],
                "preemptible": "forbidden",
                "max_price_per_hour": 0.5,
            },
            "retries": {"max": 3, "on": ["exit_code"]},
            "supervisor": True,
        },
        ContainerAnswer,
    )
    shown = dict(show_fields(seen))
    assert shown["gpus"] == "2, a100, 40GiB each"
    assert shown["resources"] == "licence=1"
    assert shown["runs only on"] == "large or small, zone=eu, not preemptible, at most $0.5/h"
    assert shown["retries"] == "3 (exit_code, 15 s apart)"
    assert shown["supervisor"] == "yes"
    plain = dict(show_fields(read({"id": "c-1", "state": "queued", "gpus": 3}, ContainerAnswer)))
    assert plain["gpus"] == "3"
    assert not any(plain[name] for name in ("resources", "runs only on", "retries", "supervisor"))
    once = {"id": "c-1", "state": "queued", "retries": {"max": 2, "on": ["failed"], "lost": False}}
    shown = dict(show_fields(read(once, ContainerAnswer)))
    assert shown["retries"] == "2 (failed, 15 s apart), not if it is lost"


@pytest.mark.parametrize(
    "url", ["", "localhost:8420", "ftp://x", "http://", "http://x:0", "http://[1"]
)
def test_what_is_no_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(CommandFailure, match="not the URL") as caught:
        checked_url(url)
    assert caught.value.exit_code == 2


def test_a_url_may_carry_a_path() -> None:
    assert checked_url("https://host/longshore/") == "https://host/longshore"


@pytest.mark.parametrize("token", ["a\nb", "a b", "schlüssel", "\x00"])
def test_a_token_that_no_header_can_hold_is_a_usage_error(token: str) -> None:
    with pytest.raises(CommandFailure) as caught:
        checked_token(token)
    assert caught.value.exit_code == 2


# ---- views and tables ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        ("succeeded", 0, 0),
        ("failed", 3, 3),
        ("failed", 137, 137),
        ("failed", None, 1),
        ("failed", 0, 1),
        ("failed", 256, 1),
        ("cancelled", None, 1),
        ("cancelled", 143, 143),
        ("queued", None, 1),
    ],
)
def test_the_status_is_the_containers(state: str, exit_code: int | None, status: int) -> None:
    assert exit_status(container(state=state, exit_code=exit_code)) == status


def test_answers_read_money_as_text_or_number_and_ignore_what_they_do_not_know() -> None:
    seen = read(
        {"id": "i", "state": "idle", "price_usd_per_hour": "0.05", "new": 1}, InstanceAnswer
    )
    assert seen.price_usd_per_hour == Decimal("0.05")
    assert container(cost_usd=0.25).cost_usd == Decimal("0.25")


def test_another_dialect_is_one_sentence() -> None:
    with pytest.raises(CommandFailure, match="cannot read what the server says"):
        container(attempts="none")


def test_a_plain_table_is_aligned_and_never_cut_off() -> None:
    lines = output.plain_table(("ID", "NAME"), [("c-" + "9" * 90, "x"), ("c-1", "")])
    assert lines == ["ID" + " " * 92 + "NAME", "c-" + "9" * 90 + "  x", "c-1" + " " * 91 + "-"]


def test_escape_sequences_of_others_never_reach_the_terminal() -> None:
    lines = output.plain_table(("NAME",), [("\x1b[2J\nevil",)])
    assert lines[1] == "\\x1b[2J\\nevil"
    seen = container(state="failed", name="\x1b]0;x\x07", reason={"message": "\x1b[31m"})
    assert outcome_line(seen).isprintable()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (-5, "0s"), (59.4, "59s"), (60, "1m00s"), (3725, "1h02m"), (90000, "1d01h")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert output.duration(seconds) == text


def test_sizes_money_and_prices() -> None:
    assert output.size(0) == ""
    assert output.size(512 * 2**20) == "512MiB"
    assert output.size(3 * 2**29) == "1.5GiB"
    assert output.size(100) == "100B"
    assert output.money(Decimal("0.0000271")) == "$0.000027"
    assert output.money(Decimal("12.346")) == "$12.35"
    assert output.price(Decimal("0.1")) == "$0.10/h"
    assert output.price(Decimal("0.01234")) == "$0.01234/h"
    assert output.price(Decimal(0)) == ""
    assert output.price(Decimal(100)) == "$100.00/h"


def test_where_or_why() -> None:
    assert note(container(waiting="no room")) == "no room"
    assert note(container(state="running", instance="i-1", waiting="old")) == "i-1"
    assert note(container(state="locked", instance="i-1")) == "i-1"
    assert note(container(state="locked", instance="i-1", waiting="booting")) == "booting"
    assert note(container(instance="i-gone", waiting="no room")) == "no room"
    assert note(container(instance="i-gone")) == ""
    ended = container(state="failed", instance="i-1", reason={"code": "x", "message": "why"})
    assert note(ended) == "why"
    assert ended.reason == ReasonAnswer(code="x", message="why")


BEGAN = datetime(2024, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat()


LOST = {"number": 1, "started_at": at(0), "finished_at": at(10)}
PLACED = {"number": 2}
STARTED = {"number": 2, "started_at": at(100)}
AHEAD = {"number": 2, "started_at": at(170)}
ENDED = {"number": 2, "started_at": at(100), "finished_at": at(105)}


@pytest.mark.parametrize(
    ("state", "attempts", "finished_at", "started_s", "lasted_s"),
    [
        ("queued", [LOST], None, None, None),
        ("locked", [LOST, PLACED], None, None, None),
        ("running", [LOST, STARTED], None, 100, 60),
        ("running", [LOST, AHEAD], None, 170, 0),
        ("succeeded", [LOST, ENDED], 105, 100, 5),
        ("cancelled", [LOST], 105, 0, 10),
        ("cancelled", [PLACED], 105, None, None),
    ],
)
def test_what_ran_is_the_last_attempt(
    state: str,
    attempts: list[dict[str, object]],
    finished_at: float | None,
    started_s: float | None,
    lasted_s: float | None,
) -> None:
    seen = container(
        state=state,
        attempts=attempts,
        started_at=at(0),
        finished_at=None if finished_at is None else at(finished_at),
    )
    began = None if started_s is None else BEGAN + timedelta(seconds=started_s)
    assert moment_of(attempt_started_at(seen)) == began
    assert ran_for_s(seen, BEGAN + timedelta(seconds=160)) == lasted_s
    told = dict(show_fields(seen))
    assert bool(told["started"]) == bool(told["ran for"]) == (began is not None)


def test_the_outcome_line_tells_all() -> None:
    began = datetime(2024, 1, 1, tzinfo=UTC)
    seen = container(
        state="failed",
        name="sim",
        exit_code=3,
        instance="i-1",
        cost_usd="0.01",
        started_at=began.isoformat(),
        finished_at=(began + timedelta(seconds=65)).isoformat(),
        reason={"code": "exit", "message": "It exited with 3."},
    )
    assert outcome_line(seen) == (
        "c-1 (sim) failed with exit code 3 after 1m05s on i-1 for $0.010000: It exited with 3."
    )


# ---- events -------------------------------------------------------------------------------------


def test_events_are_found_however_the_bytes_are_cut() -> None:
    thing = {"number": 7, "kind": "container", "id": "c-1", "data": {"state": "running"}}
    stream = (
        b": hello\r\n\r\n"
        b"id: 7\r\nevent: container\r\ndata: " + json.dumps(thing).encode() + b"\r\n\r\n"
        b'event: instance\ndata: {"id":\ndata: "i-1"}\n\n'
        b"event: container\ndata: not json\n\n"
        b"event: container\ndata: [1]\n\n"
        b"event: container\n\n"
        b'data: {"id": "unfinished"}'
    )
    expected = [
        Changed(kind="container", data={"id": "c-1", "state": "running"}),
        Changed(kind="instance", data={"id": "i-1"}),
    ]
    assert list(parse([stream])) == expected
    assert list(parse(bytes([byte]) for byte in stream)) == expected


def test_an_event_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.events.MAX_LINE_BYTES", 1000)
    with pytest.raises(CommandFailure, match="without end"):
        list(parse([b"data: "] + [b"x" * 100] * 20))


def test_urllib3_can_end_a_read_of_another_thread() -> None:
    assert hasattr(urllib3.HTTPResponse, "shutdown"), "urllib3 >= 2.3 is needed"

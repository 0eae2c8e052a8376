"""The command line against the real API: what it prints, what it sends, how it exits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.dispatcher.api.render.containers import SHOWN_ATTEMPTS
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.domain.containers import Preemptible, Retries
from tests.cli_server import CliServer, cli_server
from tests.rigs.api import SYNC_S

Capture = pytest.CaptureFixture[str]
NO_MONEY = (
    "the cluster may spend $0.00/h (max_hourly_spend), and the cheapest instance that would do"
    " costs $0.34/h: that can never be, while the limit is what it is"
)
WAITS_AGAIN = "it is started again at "


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CliServer]:
    with cli_server() as running:
        monkeypatch.setenv("LONGSHORE_URL", running.url)
        yield running


def submitted(capsys: Capture, *arguments: str) -> str:
    assert main(["submit", *arguments]) == 0
    return capsys.readouterr().out.strip()


# ---- submit -------------------------------------------------------------------------------------


def test_submit_sends_every_option(server: CliServer, capsys: Capture) -> None:
    container_id = submitted(
        capsys,
        *("--image", "debian:12", "--cpus", "1.5", "--memory", "4GiB", "--disk", "10GiB"),
        *("--gpus", "2,model=a100,memory=40GiB", "--resource", "licence=3", "--resource", "b=0"),
        *("--retries", "4", "--supervisor"),
        *("--priority", "700", "--env", "A=b=c", "--label", "team=x"),
        *("--name", "train", "--project", "science", "--instance-type", "large"),
        *("--constraint-label", "zone=eu", "--preemptible", "forbidden", "--max-price", "0.5"),
        *("--", "python3", "train.py", "--epochs", "3", "--help"),
    )
    (made,) = server.containers()
    assert made.id == container_id
    assert made.spec.command == ("python3", "train.py", "--epochs", "3", "--help")
    assert made.spec.image == "debian:12"
    assert made.spec.name == "train"
    assert made.spec.env == (("A", "b=c"),)
    assert made.spec.labels == (("team", "x"),)
    assert made.spec.resources.cpu_millis == 1500
    assert made.spec.resources.memory_bytes == 4 * 2**30
    assert made.spec.resources.disk_bytes == 10 * 2**30
    assert made.spec.resources.gpus == 2
    assert made.spec.constraints.gpu_model == "a100"
    assert made.spec.constraints.gpu_memory_bytes == 40 * 2**30
    assert made.spec.resources.custom == (("licence", 3),)
    assert made.spec.retries == Retries(most=4)
    assert made.spec.supervisor
    assert made.spec.constraints.labels == (("zone", "eu"),)
    assert made.spec.constraints.instance_types == ("large",)
    assert made.spec.constraints.preemptible is Preemptible.FORBIDDEN
    assert str(made.spec.constraints.max_price_usd_per_hour) == "0.5"
    assert (made.priority, made.project) == (700, "science")


def test_submit_json_is_one_document(server: CliServer, capsys: Capture) -> None:
    document = json.loads(submitted(capsys, "--json", "--", "true"))
    assert document["id"] == server.containers()[0].id
    assert document["state"] == "queued"


def test_several_files_are_all_or_nothing(
    server: CliServer, capsys: Capture, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.yml", tmp_path / "bad.json"
    good.write_text("- command: [a]\n- {command: [b], cpus: 2}\n", encoding="utf-8")
    bad.write_text('{"command": [], "cpu": 1}', encoding="utf-8")
    assert main(["submit", "-f", str(good), "-f", str(bad)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[2].command: " in captured.err
    assert "[2].cpu: " in captured.err
    assert server.containers() == []
    assert main(["submit", "-f", str(good)]) == 0
    assert capsys.readouterr().out.split() == [each.id for each in server.containers()]


def test_a_list_stays_a_list_and_stdin_is_a_file(
    server: CliServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b'[{"command": ["a"], "name": "x"}]'))
    monkeypatch.setattr("sys.stdin", stdin)
    document = json.loads(submitted(capsys, "--json", "-f", "-"))
    assert [each["name"] for each in document["items"]] == ["x"]
    assert len(server.containers()) == 1


def test_a_refusal_is_told_field_by_field(server: CliServer, capsys: Capture) -> None:
    assert main(["submit", "--memory", "4 potatoes", "--instance-type", "smal", "--", "x"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("longshore: ")
    assert any(line.startswith("  memory: ") for line in lines)
    assert any(
        line.startswith("  constraints.instance_types[0]: ") and "small" in line for line in lines
    )
    assert server.containers() == []


def test_a_server_that_cannot_take_work_says_so(server: CliServer, capsys: Capture) -> None:
    server.do(lambda rig: rig.runtime.stop())
    assert main(["submit", "--", "x"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the server is stopping; ask again once it is back. Try again later" in captured.err


# ---- ps and show --------------------------------------------------------------------------------


def a_few(server: CliServer, capsys: Capture) -> tuple[str, str, str]:
    """Return a queued, a running and a failed container."""
    queued = submitted(capsys, "--name", "one", "--instance-type", "large", "--", "x")
    running, failed = (submitted(capsys, "--name", name, "--", "x") for name in ("two", "three"))
    server.do(lambda rig: rig.add_instance("i-1"))
    server.do(lambda rig: rig.start(running, "i-1"))
    server.do(lambda rig: rig.start(failed, "i-1"))
    server.do(lambda rig: rig.finish(failed, 3))
    return queued, running, failed


def test_ps_lists_what_has_not_ended(server: CliServer, capsys: Capture) -> None:
    queued, running, failed = a_few(server, capsys)
    assert main(["ps"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "ID",
        "NAME",
        "STATE",
        "PRIO",
        "CPUS",
        "MEMORY",
        "USER",
        "AGE",
        "EXIT",
        "WHERE/WHY",
    ]
    assert [row.split()[0] for row in rows] == [running, queued]
    assert rows[0].split()[:3] == [running, "two", "running"]
    assert rows[0].endswith("i-1")
    assert rows[1].endswith(f"{NO_MONEY} (position 1 of 1)")
    assert main(["ps", "--all", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["id"] for each in document["items"]] == [failed, running, queued]


def test_ps_filters(server: CliServer, capsys: Capture) -> None:
    queued, _, failed = a_few(server, capsys)
    listed = {
        ("--state", "failed"): [failed],
        ("--state", "queued", "--state", "failed"): [failed, queued],
        ("--user", "nobody"): [],
        ("--all", "--project", "default", "--limit", "1"): [failed],
    }
    for options, expected in listed.items():
        assert main(["ps", "--json", *options]) == 0
        captured = capsys.readouterr()
        assert [each["id"] for each in json.loads(captured.out)["items"]] == expected
        assert ("there are more" in captured.err) == ("--limit" in options)


def test_ps_pages_through_everything(server: CliServer, capsys: Capture, tmp_path: Path) -> None:
    many = tmp_path / "many.json"
    many.write_text(json.dumps([{"command": ["x"]}] * 1203), encoding="utf-8")
    assert main(["submit", "-f", str(many)]) == 0
    assert len(capsys.readouterr().out.split()) == 1203
    assert main(["ps", "--limit", "2000", "--json"]) == 0
    assert len({each["id"] for each in json.loads(capsys.readouterr().out)["items"]}) == 1203
    assert len(server.containers()) == 1203


def test_what_waits_for_another_attempt_tells_why_and_counts_nothing(
    server: CliServer, capsys: Capture
) -> None:
    _, lost, _ = a_few(server, capsys)
    server.do(lambda rig: rig.lose(lost))
    assert main(["ps", "--state", "queued"]) == 0
    _, row, _ = capsys.readouterr().out.splitlines()
    assert row.split()[0] == lost
    assert WAITS_AGAIN in row
    assert main(["show", lost]) == 0
    text = capsys.readouterr().out
    assert WAITS_AGAIN in text
    assert "\ninstance" not in text
    assert "\nstarted" not in text
    assert "\nran for" not in text


def test_show_says_how_many_attempts_there_were_earlier(server: CliServer, capsys: Capture) -> None:
    few, many = (submitted(capsys, "--", "x") for _ in range(2))
    server.do(lambda rig: rig.remember_lost(few, SHOWN_ATTEMPTS))
    server.do(lambda rig: rig.remember_lost(many, SHOWN_ATTEMPTS + 7))
    assert main(["show", few]) == 0
    assert "earlier" not in capsys.readouterr().out
    assert main(["show", many]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "7 earlier attempts are not shown"
    assert sum(line.startswith(f"{many}-") for line in lines) == SHOWN_ATTEMPTS


def test_show_tells_all(server: CliServer, capsys: Capture) -> None:
    queued, _, failed = a_few(server, capsys)
    assert main(["show", failed]) == 0
    text = capsys.readouterr().out
    for wanted in (failed, "three", "exit code      3", "it exited with 3", "i-1", "ATTEMPT"):
        assert wanted in text
    assert main(["show", queued]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"waiting {NO_MONEY} (position 1 of 1)" in text
    assert main(["show", "--json", failed]) == 0
    assert json.loads(capsys.readouterr().out)["exit_code"] == 3


def test_what_does_not_exist_is_one_sentence(server: CliServer, capsys: Capture) -> None:
    for arguments in (
        ["show", "c-nope"],
        ["logs", "c-nope"],
        ["logs", "-f", "c-nope"],
        ["wait", "c-nope"],
        ["cancel", "c-nope"],
        ["priority", "c-nope", "1"],
        ["instance", "hold", "i-nope"],
        ["instance", "kill", "i-nope"],
    ):
        assert main([*arguments, "--url", server.url]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        assert "nope" in captured.err


# ---- steering -----------------------------------------------------------------------------------


def test_cancel_goes_on_after_one_that_has_ended(server: CliServer, capsys: Capture) -> None:
    queued, running, failed = a_few(server, capsys)
    assert main(["cancel", failed, queued, running, queued]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        f"{queued} is being cancelled",
        f"{running} is being cancelled",
    ]
    assert failed in captured.err
    assert [each.cancel_requested for each in server.containers()] == [True, True, False]


def test_priority(server: CliServer, capsys: Capture) -> None:
    container_id = submitted(capsys, "--", "x")
    assert main(["priority", container_id, "900"]) == 0
    assert capsys.readouterr().out == f"{container_id} has priority 900\n"
    assert server.containers()[0].priority == 900


def test_instances_and_what_admins_do_to_them(server: CliServer, capsys: Capture) -> None:
    a_few(server, capsys)
    for behavior in ("hold", "drain", "run"):
        assert main(["instance", behavior, "i-1"]) == 0
        assert capsys.readouterr().out == f"i-1 is set to {behavior}\n"
        assert server.do(lambda rig: rig.workers["i-1"].behavior.value) == behavior
    assert main(["instances"]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "ID",
        "TYPE",
        "STATE",
        "BEHAVIOR",
        "PRICE",
        "RUNNING",
        "AGE",
        "BUSY",
        "NOTE",
    ]
    assert row.split()[:6] == ["i-1", "small", "running", "run", "$0.10/h", "1"]
    assert main(["instance", "kill", "i-1", "--reason", "smells"]) == 0
    assert capsys.readouterr().out == "i-1 is being destroyed\n"
    assert main(["instances", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["state"] == "shutdown"
    server.do(lambda rig: rig.pass_time(SYNC_S))
    assert main(["instances", "--gone", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["id"], item["last_error"]) == ("i-1", "an admin ended it: smells")


# ---- logs ---------------------------------------------------------------------------------------


def test_logs_go_where_they_were_written(
    server: CliServer, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["submit", "--", "x"]) == 0
    container_id = capsysbinary.readouterr().out.decode().strip()
    server.do(lambda rig: rig.add_instance("i-1"))
    server.do(lambda rig: rig.start(container_id, "i-1"))
    server.do(lambda rig: rig.push_log(container_id, b"\x00\xffout\n"))
    server.do(lambda rig: rig.push_log(container_id, b"err\n", stream="stderr"))
    assert main(["logs", container_id]) == 0
    assert capsysbinary.readouterr() == (b"\x00\xffout\n", b"err\n")
    assert main(["logs", "--stream", "stderr", container_id]) == 0
    assert capsysbinary.readouterr() == (b"err\n", b"")


# ---- trees ---------------------------------------------------------------------------------------


def test_a_tree_is_cancelled_and_who_may_submit_is_shown(
    server: CliServer, capsys: Capture
) -> None:
    container_id = submitted(capsys, "--api", "--", "true")
    assert main(["show", container_id]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[-1] for line in shown.splitlines() if "api inside" in line] == ["yes"]
    assert main(["cancel", "--tree", container_id]) == 0
    assert f"{container_id} is being cancelled, with all below it" in capsys.readouterr().out
    assert [each.cancel_requested for each in server.containers()] == [True]
    assert [each.cancel_requested for each in server.containers()] == [True]


def test_what_a_container_left_that_has_ended_is_cancelled(
    server: CliServer, capsys: Capture
) -> None:
    container_id = submitted(capsys, "--api", "--", "true")
    server.do(lambda rig: rig.add_instance("i-1"))
    server.do(lambda rig: rig.start(container_id, "i-1"))
    server.do(lambda rig: rig.finish(container_id))
    assert main(["cancel", "--tree", container_id]) == 0
    assert "has ended already; all below it is being cancelled" in capsys.readouterr().out


def test_a_job_has_no_tree_to_cancel(server: CliServer, capsys: Capture) -> None:
    del server
    assert main(["cancel", "--tree", "j-1"]) == 2
    assert "longshore cancel j-1" in capsys.readouterr().err


def test_a_token_whose_text_was_lost_is_named_with_what_to_do(
    server: CliServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["token", "create", "--user", "ann", "--project", "p", "--idempotency-key", "k"]
    assert main([*words, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert main(words) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert server.do(lambda rig: rig.services.tokens.token(made["id"])).user == "ann"
    assert f"the token {made['id']} was made, and the answer with its text was lost" in told.err
    assert f"Revoke it with 'longshore token revoke {made['id']}', and make another" in told.err
    assert main([*words, "--name", "another"]) == 1
    assert "take a new key" in capsys.readouterr().err

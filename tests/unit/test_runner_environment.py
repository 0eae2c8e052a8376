"""What a user's environment is for the engine's client: the content of files, and no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from longshore.pool.runner import cgroups, engines
from longshore.pool.runner.collector import Collector
from longshore.pool.runner.engines import ContainerEngine
from longshore.pool.runner.invocation import Recipe
from longshore.pool.runner.launch import Launcher
from longshore.pool.runner.podman_secrets import MAX_SECRETS, secret_name
from longshore.pool.runner.spool import Spool, SpoolPaths, attempt_of
from longshore.pool.runner.wire import Refusal, StartOrder
from tests.runner_harness import eventually, reap_one
from tests.small_disk import fill, small_disk

# Each names what a program that podman starts would load, were it in the client's environment.
GOVERNING = ("XTABLES_LIBDIR", "IPTABLES_LIB_DIR", "MODPROBE_OPTIONS", "OPENSSL_CONF", "LD_PRELOAD")
VALUES = ("/dir:\n", "/dir\r", "/dir:" + "x" * 70_000)

# Writes down what it was given, and does as Podman does with a container and the file of a secret.
CLIENT = """#!/bin/sh
said=@SAID@/$$
tr '\\0' '\\n' </proc/$$/environ >"$said.environ"
tr '\\0' '\\n' </proc/$$/cmdline >"$said.cmdline"
case $1-$2 in
  run-*) until [ "$1" = --cidfile ]; do shift; done; echo id >"$2" ;;
  image-inspect) echo null ;;
  container-inspect) echo "exited 0 0 2026-01-31 00:00:00 +0000 UTC" ;;
  secret-create) [ ! -e @SAID@/full ] && cp -- "$4" "@SAID@/secret.$3" ;;
  secret-rm) shift 2; for name; do rm -- "@SAID@/secret.$name"; done ;;
  secret-ls) cd @SAID@ && for file in secret.*; do echo "${file#secret.}"; done ;;
esac
"""


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    base = str(tmp_path)
    name = "longshore-0-0123456789abcdef"
    return Spool(
        SpoolPaths(base, f"{base}/spool", f"{base}/logs", f"{base}/c/work", name, f"{base}/apart")
    )


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """Where the client leaves what it was given."""
    said = tmp_path / "said"
    said.mkdir()
    return said


@pytest.fixture
def client(said: Path, tmp_path: Path) -> ContainerEngine:
    binary = tmp_path / "client"
    binary.write_text(CLIENT.replace("@SAID@", str(said)))
    binary.chmod(0o755)
    return ContainerEngine("podman", prefix=(str(binary),))


@pytest.fixture
def _reserved() -> Iterator[None]:
    """Low descriptors are in use, as in the runner, and given back."""
    kept: list[int] = []
    while not kept or kept[-1] < 10:
        kept.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for descriptor in kept:
        os.close(descriptor)


@pytest.fixture
def launcher(
    spool: Spool,
    client: ContainerEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    _reserved: None,
) -> Iterator[Launcher]:
    """A launcher on a machine whose groups are plain files; what it spawned has ended."""
    for controller in ("cpu", "memory"):
        tmp_path.joinpath("cgroup", controller).mkdir(parents=True)
    monkeypatch.setattr(cgroups, "ROOT", str(tmp_path / "cgroup"))
    launcher = Launcher(spool, client, {"PATH": os.environ["PATH"]})
    yield launcher
    eventually(lambda: launcher.reap() == [] and not launcher._children)


def order(env: dict[str, str], attempt_id: str = "a") -> StartOrder:
    pairs = tuple((name.encode(), value.encode()) for name, value in sorted(env.items()))
    return StartOrder(attempt_id, "c", "image", (b"true",), pairs, 0, 0)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", GOVERNING)
def test_no_name_of_a_users_is_in_the_environment_of_the_client(
    spool: Spool, name: str, value: str
) -> None:
    recipe = Recipe(spool, ContainerEngine("podman", prefix=("podman",)), {"PATH": "/bin"})
    made = recipe.contained(order({name: value, "PLAIN": "1"}), "g")
    assert {each for each in made.env if not each.startswith(b"_ls_")} == {b"PATH"}
    assert not [each for each in (*made.argv, *made.env.values()) if b"/dir" in each]
    assert (made.variables, made.secrets) == (b"PLAIN=1\n", ((name.encode(), value.encode()),))


def test_the_client_and_all_that_it_starts_see_a_value_in_a_file_only(
    spool: Spool, launcher: Launcher, said: Path
) -> None:
    env = dict(zip(GOVERNING, (*VALUES, "a\n\n", "grün\n"), strict=True))
    attempt = launcher.start(order(env))
    assert attempt is not None
    reap_one(launcher, spool, "a")
    ended = spool.ended("a")
    assert ended is not None
    assert ended.code == 0, Path(spool.log("a", "stderr")).read_text()
    environs = [each.read_bytes() for each in sorted(said.glob("*.environ"))]
    assert len(environs) == len(GOVERNING) + 3, "the image, a secret each, the container, its end"
    assert not [each for each in environs for name in GOVERNING if f"\n{name}=".encode() in each]
    names = [secret_name(spool, "a", index) for index in range(len(env))]
    words = "\n".join(each.read_text() for each in sorted(said.glob("*.cmdline")))
    assert "/dir" not in words
    for secret, variable in zip(names, sorted(env), strict=True):
        assert f"--secret\n{secret},type=env,target={variable}\n" in words
        assert said.joinpath(f"secret.{secret}").read_bytes() == env[variable].encode()
        assert Path(spool.path("a", secret)).stat().st_mode & 0o777 == 0o600
    launcher.release(attempt)
    eventually(lambda: not list(said.glob("secret.*")))


def test_a_secret_that_cannot_be_made_is_the_engines_failure(
    spool: Spool, launcher: Launcher, said: Path
) -> None:
    said.joinpath("full").touch()
    launcher.start(order({"KEY": "a\nb"}))
    reap_one(launcher, spool, "a")
    ended = spool.ended("a")
    assert ended is not None
    assert (ended.kind, ended.code) == ("engine_failure", 125)


# Starts nothing, until TERM ends it as it ends Podman's client: with 0.
UNHURRIED = """#!/bin/sh
case $1-$2 in
  run-*)
    until [ "$1" = --cidfile ]; do shift; done
    echo id >"$2"
    trap "exit 0" TERM
    while :; do sleep 0.1; done ;;
  image-inspect) echo null ;;
  container-inspect) echo "created 0 0 0001-01-01 00:00:00 +0000 UTC" ;;
  kill-*) exit 1 ;;
esac
"""


def test_a_container_is_signalled_and_has_its_end_on_a_full_spool(
    spool: Spool, launcher: Launcher, client: ContainerEngine, tmp_path: Path
) -> None:
    Path(client.prefix[0]).write_text(UNHURRIED)
    with small_disk(tmp_path / "small") as disk:
        for name in ("attempts", "new", "leaving"):
            disk.joinpath(name).mkdir()
            Path(spool.places.spool, name).rmdir()
            Path(spool.places.spool, name).symlink_to(disk / name)
        attempt = launcher.start(order({}))
        assert attempt is not None
        eventually(lambda: Path(spool.path("a", "cid")).exists())
        fill(disk)
        eventually(lambda: launcher.signal(attempt, "TERM"))
        eventually(lambda: spool.recorded("a") is not None)
        assert spool.ended("a") is None, "it waits for whoever collects"
        with closing(Collector(spool)) as collector:
            collector.look_at_all()
        eventually(lambda: launcher.reap() == [] and not launcher._children)
        ended = spool.ended("a")
        assert ended is not None
        assert (ended.kind, ended.code) == ("engine_failure", None)
        launcher.release(attempt)
        eventually(lambda: not list((disk / "leaving").iterdir()))
        eventually(lambda: launcher.reap() == [] and not launcher._children)


def test_secrets_of_ours_that_the_spool_does_not_know_are_removed(
    spool: Spool, client: ContainerEngine, said: Path
) -> None:
    kept, forgotten = (secret_name(spool, each, 0) for each in ("kept", "forgotten"))
    strangers = "somebody-elses-0"
    for name in (kept, forgotten, strangers):
        said.joinpath(f"secret.{name}").touch()
    lock = spool.claim(attempt_of("kept", "c", "podman", spool.boot_id, "g"))
    assert lock is not None
    os.close(lock)
    Path(spool.path("kept", kept)).touch()
    assert engines._remove_secrets(client.prefix, spool) == ""
    left = sorted(each.name for each in said.glob("secret.*"))
    assert left == sorted([f"secret.{kept}", f"secret.{strangers}"])


def test_a_secrets_name_is_as_short_as_podman_wants_it(spool: Spool) -> None:
    assert len(secret_name(spool, "a" * 128, MAX_SECRETS - 1)) <= 64


def refused(spool: Spool, engine: str, env: dict[str, str]) -> str:
    recipe = Recipe(spool, ContainerEngine(engine, prefix=(engine,)), {})
    with pytest.raises(Refusal) as refusal:
        recipe.contained(order(env), "g")
    assert refusal.value.code == "invalid"
    assert len(str(refusal.value)) < 4096, "the session takes no longer words"
    return str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("a.b", "a\nb", "underscores: 'a.b'"),
        ("A*", "a\nb", "underscores: 'A*'"),
        ("A,type=mount", "a\r", "underscores: 'A,type=mount'"),
        ("a b", "x", "called 'a b'"),
        ("#a", "x", "called '#a'"),
        ("a\nb", "x", r"called 'a\nb'"),
    ],
)
def test_a_name_that_podman_would_misread_is_refused(
    spool: Spool, launcher: Launcher, name: str, value: str, said: str
) -> None:
    assert said in refused(spool, "podman", {name: value})
    with pytest.raises(Refusal):
        launcher.start(order({name: value}))
    assert spool.attempts() == []


def test_docker_is_given_nothing_past_its_file(spool: Spool) -> None:
    message = refused(spool, "docker", {"B": "a\nb", "A": "a\r", "C": "x" * 70_000, "D": "d"})
    assert "'A', 'B', 'C'" in message
    assert "another encoding or in a file" in message


def test_all_that_is_wrong_with_an_environment_is_told_at_once(spool: Spool) -> None:
    many = {f"N{index}": "a\nb" for index in range(MAX_SECRETS)}
    message = refused(spool, "podman", {**many, "a b": "x", "#a": "x", "A,type=mount": "a\nb"})
    assert "called '#a', 'a b'" in message
    assert "underscores: 'A,type=mount'" in message
    assert f"there can be {MAX_SECRETS}, not {MAX_SECRETS + 1}" in message


def test_many_wrong_names_are_told_in_few_words(spool: Spool) -> None:
    names = ["\U0010fffe" * 100 + str(index) for index in range(100)]
    assert "and 95 more" in refused(spool, "podman", dict.fromkeys(names, "x"))


def test_no_user_says_what_is_ours_to_say(spool: Spool) -> None:
    """Neither by the file of the variables, nor by a secret, which podman reads after it."""
    claimed = {
        "LONGSHORE_CONTAINER_ID": "another",
        "LONGSHORE_ATTEMPT_ID": "two\nlines",
        "LONGSHORE_CLUSTER": "another",
        "LONGSHORE_SPOOL": "another",
        "LONGSHORE_OTHER": "theirs",
    }
    recipe = Recipe(spool, ContainerEngine("podman", prefix=("podman",)), {"PATH": "/bin"})
    made = recipe.contained(order(claimed), "g")
    assert (made.variables, made.secrets) == (b"LONGSHORE_OTHER=theirs\n", ())
    assert b"LONGSHORE_ATTEMPT_ID=a" in made.argv
    engine = ContainerEngine("process", work=str(spool.places.work))
    recipe = Recipe(spool, engine, {"PATH": "/bin"})
    bare = recipe.bare(order(claimed)._replace(image=""))
    given = [value for name, value in bare.env.items() if name.startswith(b"_ls_e")]
    assert b"LONGSHORE_ATTEMPT_ID=a" in given
    assert b"LONGSHORE_OTHER=theirs" in given
    assert not [each for each in given if b"another" in each or b"lines" in each]

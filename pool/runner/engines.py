"""Which engine runs the attempts here: what is configured, what passes a trial, and its words."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import time
from typing import Any, NamedTuple

from longshore.pool.runner import cgroups, containment, machine
from longshore.pool.runner.images import options
from longshore.pool.runner.podman_secrets import left_behind
from longshore.pool.runner.spool import Spool, SpoolError, write_whole

NAMES = ("podman", "docker", "process")
LABEL = "longshore-spool"
TRIAL_TIMEOUT_S = 30
_ADVICE_KEPT_S = 300.0
"""For how long it is believed that an engine has no init: to look takes it a moment."""

PULL_TIMEOUT_S = 1800
"""For how long an image may be fetched: 20 GB come in less, at 100 Mbit/s."""

PROBLEM_CHARACTERS = 400


class EngineOptions(NamedTuple):
    """The engine as the administrator wants it; see `parse_config`."""

    name: str = "auto"
    binary: str = ""
    global_arguments: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    run_as: str = ""
    init: bool = True
    pull_timeout_s: int = PULL_TIMEOUT_S


class ContainerEngine(NamedTuple):
    """The engine that was chosen."""

    name: str
    #: The client with its global arguments.
    prefix: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    #: The command that gives up privileges for what runs without a container: all of the process
    #: engine's and, with `imageless`, what names no image.
    drop: tuple[str, ...] = ()
    uid: int = -1
    gid: int = -1
    #: Why it cannot start anything, "" when it can.
    problem: str = ""
    imageless: bool = False
    #: Where what runs without a container has its control groups, "" for nowhere.
    hierarchy: str = ""
    #: The directory of its working directories.
    work: str = ""
    #: Whether containers get one of the engine's as process 1.
    init: bool = False
    #: Why they do not, and what to do about it; "" where they do.
    advice: str = ""
    #: How long an image may be fetched.
    pull_timeout_s: int = PULL_TIMEOUT_S


class EngineConfigError(Exception):
    """What was given as engine is none; the message says what is wrong."""


def parse_config(text: str) -> EngineOptions:
    """Return the engine configuration in a JSON object.

    `{"name": "auto|podman|docker|process", "binary": "", "global_arguments": [], "arguments": [],
    "run_as": "", "init": true, "pull_timeout_s": 1800}`; all may be missing. `global_arguments`
    come before the engine's subcommand, `arguments` after `run`; `run_as` is for the process
    engine. EngineConfigError for others.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise EngineConfigError("the engine is not given as JSON") from error
    if not isinstance(value, dict) or not set(value) <= set(EngineOptions._fields):
        raise EngineConfigError(f"the engine has the fields {', '.join(EngineOptions._fields)}")
    config = EngineOptions(
        name=_word(value, "name", "auto"),
        binary=_word(value, "binary", ""),
        global_arguments=_words(value, "global_arguments"),
        arguments=_words(value, "arguments"),
        run_as=_word(value, "run_as", ""),
        init=_flag(value, "init"),
        pull_timeout_s=_seconds(value, "pull_timeout_s", PULL_TIMEOUT_S),
    )
    if config.name not in ("auto", *NAMES):
        raise EngineConfigError(f"there is no engine {config.name!r}: auto, {', '.join(NAMES)}")
    return config


def _word(value: dict[str, Any], field: str, default: str) -> str:
    word = value.get(field, default)
    if not isinstance(word, str):
        raise EngineConfigError(f"{field} is text")
    return word


def _seconds(value: dict[str, Any], field: str, default: int) -> int:
    seconds = value.get(field, default)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 1:
        raise EngineConfigError(f"{field} is a number of seconds, 1 at least")
    return int(min(seconds, 1e9))


def _flag(value: dict[str, Any], field: str) -> bool:
    flag = value.get(field, True)
    if not isinstance(flag, bool):
        raise EngineConfigError(f"{field} is true or false")
    return flag


def _words(value: dict[str, Any], field: str) -> tuple[str, ...]:
    words = value.get(field, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise EngineConfigError(f"{field} is a list of text")
    return tuple(words)


def choose(config: EngineOptions, spool: Spool) -> ContainerEngine:
    """Return the engine to use; it has a `problem` when the one asked for fails its trial.

    `auto` takes the first of podman, docker and process that passes; what names no image is then
    run as the process engine does it. The choice is kept in the spool; a failure is not, since it
    may pass.
    """
    path = os.path.join(spool.places.spool, "engine")
    key = json.dumps([config, spool.boot_id, ContainerEngine._fields])
    known = machine.read_text(path)
    if known:
        kept_key, kept = json.loads(known)
        if kept_key == key:
            name, prefix, arguments, drop, *rest = kept
            engine = ContainerEngine(name, tuple(prefix), tuple(arguments), tuple(drop), *rest)
            if not engine.advice or _age_s(path) < _ADVICE_KEPT_S:
                return engine
            # What is advised may have been done.
            engine = _with_init(engine, config, spool)
            _keep(path, key, engine)
            return engine
    engine = _choose(config, spool)
    if not engine.problem:
        _keep(path, key, engine)
    return engine


def _keep(path: str, key: str, engine: ContainerEngine) -> None:
    with contextlib.suppress(OSError):  # the spool is full: it is tried again next time
        write_whole(path, json.dumps([key, engine]).encode())


def _age_s(path: str) -> float:
    """Return how long ago a file was written, a long time where that cannot be told."""
    try:
        return abs(time.time() - os.stat(path).st_mtime)
    except OSError:
        return _ADVICE_KEPT_S


def _choose(config: EngineOptions, spool: Spool) -> ContainerEngine:
    if config.name == "process":
        return try_process(config, spool)
    if config.name != "auto":
        return _try_container_engine(config, config.name, spool)
    for name in ("podman", "docker"):
        engine = _try_container_engine(config, name, spool)
        if not engine.problem:
            bare = try_process(config, spool)
            if bare.problem:
                return engine
            return engine._replace(
                drop=bare.drop,
                uid=bare.uid,
                gid=bare.gid,
                imageless=True,
                hierarchy=bare.hierarchy,
                work=bare.work,
            )
    return try_process(config, spool)


def try_process(config: EngineOptions, spool: Spool) -> ContainerEngine:
    """Return the process engine as it works here; it has a `problem` when it does not."""
    engine = ContainerEngine("process", hierarchy=_hierarchy(), work=spool.places.work)
    if not machine.find_program("setsid"):
        return engine._replace(problem="process: setsid is not installed")
    return _as_user(engine, config.run_as, spool) if config.run_as else engine


def _hierarchy() -> str:
    """Return the first hierarchy in which a group can be made and joined, "" when there is none."""
    for root in containment.hierarchies():
        group = f"{root}/longshore-trial-{os.getpid()}/trial"
        try:
            containment.create(group)
            failed = _run(("/bin/sh", "-c", 'echo 0 >"$1"', "sh", f"{group}/cgroup.procs"))[1]
        except OSError as error:
            failed = str(error)
        if containment.remove(group) and not failed:
            return root
    return ""


def _as_user(engine: ContainerEngine, run_as: str, spool: Spool) -> ContainerEngine:
    try:
        user = pwd.getpwnam(run_as)
    except KeyError:
        return engine._replace(problem=f"process: there is no user {run_as!r}")
    if user.pw_uid == os.geteuid():
        return engine
    setpriv = machine.find_program("setpriv")
    if os.geteuid() != 0 or not setpriv:
        return engine._replace(problem="process: run_as needs root and setpriv")
    ids = ("--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--init-groups")
    drop = (setpriv, *ids, "--")
    # A job whose working directory cannot be reached by path would fail as if it were at fault.
    reach = (*drop, "/bin/sh", "-c", 'cd -- "$1"/.', "sh")
    work = spool.places.work
    try:
        if _run((*reach, os.path.dirname(spool.places.runner)))[1]:
            # What is above the runner's directory is not ours to open.
            work = spool.places.apart
            spool.make_apart()
        else:
            spool.let_others_through()
        failed = _run((*reach, work))[1]
    except (OSError, SpoolError) as error:
        failed = str(error)
    if failed:
        return engine._replace(problem=f"process: {run_as} cannot work here: {failed}")
    return engine._replace(drop=drop, uid=user.pw_uid, gid=user.pw_gid, work=work)


def _try_container_engine(config: EngineOptions, name: str, spool: Spool) -> ContainerEngine:
    engine = ContainerEngine(name)
    path = ":".join((os.environ.get("PATH", ""), machine.SYSTEM_PATH))
    binary = machine.find_program(config.binary or name, path)
    if not binary:
        return engine._replace(problem=f"{name}: {config.binary or name} is not installed")
    if not machine.find_program("timeout"):
        return engine._replace(problem=f"{name}: timeout is not installed")
    if cgroups.problem():
        return engine._replace(problem=f"{name}: {cgroups.problem()}")
    # The limits sit on control groups of ours, which only this manager takes as a parent.
    manager = ("--cgroup-manager", "cgroupfs") if name == "podman" else ()
    prefix = (binary, *config.global_arguments, *manager)
    what = "{{.Host.CgroupManager}}" if name == "podman" else "{{.CgroupDriver}}"
    answer, failed = _run((*prefix, "info", "--format", what))
    if not failed and answer.strip() != "cgroupfs":
        failed = f"its cgroup driver is {answer.strip()!r}, and limits need cgroupfs"
    if not failed:
        failed = _remove_orphans(prefix, spool)
    if not failed and name == "podman":
        failed = _remove_secrets(prefix, spool)
    if failed:
        return engine._replace(problem=f"{name}: {failed}")
    engine = engine._replace(
        prefix=prefix, arguments=config.arguments, pull_timeout_s=config.pull_timeout_s
    )
    return _with_init(engine, config, spool)


def _with_init(engine: ContainerEngine, config: EngineOptions, spool: Spool) -> ContainerEngine:
    """Return a container engine with what is found out of its init, which may be none.

    As process 1 of its container a program that does not ask for TERM would never get it, and the
    children that others leave to it would never be buried.
    """
    if not config.init:
        return engine._replace(init=False, advice="")
    docker = engine.name == "docker"
    failed = _docker_init_problem(engine) if docker else _podman_init_problem(engine, spool)
    if not failed:
        return engine._replace(init=True, advice="")
    package = "tini, or that of docker-init," if docker else "catatonit"
    advice = (
        f"{engine.name} has no init for its containers, so their programs may be deaf to TERM: "
        f"install the package {package} on instances, or set engine.init to false ({failed})"
    )
    return engine._replace(init=False, advice=advice[: 2 * PROBLEM_CHARACTERS])


def _docker_init_problem(engine: ContainerEngine) -> str:
    found, failed = _run((*engine.prefix, "info", "--format", "{{.InitCommit.ID}}"))
    return failed or ("" if found.strip() not in ("", "N/A") else "docker-init is not there")


def _podman_init_problem(engine: ContainerEngine, spool: Spool) -> str:
    """Return why Podman can give containers no init, "" when it can; it needs no image for that."""
    name = f"longshore-init-{os.getpid()}"
    root = os.path.join(spool.places.runner, f".{name}")
    label = f"{LABEL}={spool.places.name}"
    # With a shared PID namespace, or systemd as process 1, Podman refuses one.
    asked = frozenset({"--init-path", "--pid", "--systemd"})
    where = options(engine.arguments, asked, frozenset())
    words = [
        "create",
        "--init",
        *where,
        "--name",
        name,
        "--label",
        label,
        "--rootfs",
        root,
        "/none",
    ]
    try:
        os.makedirs(root, exist_ok=True)
    except OSError as error:
        return str(error)
    try:
        failed = _run((*engine.prefix, *words))[1]
        # A container that is left is an orphan, which the next choice removes.
        return failed or _run((*engine.prefix, "rm", "--force", name))[1]
    finally:
        with contextlib.suppress(OSError):  # an empty directory that is left harms nobody
            os.rmdir(root)


def _remove_orphans(prefix: tuple[str, ...], spool: Spool) -> str:
    """Remove containers of ours that the spool does not know (a reboot emptied it)."""
    label = f"label={LABEL}={spool.places.name}"
    names, failed = _run((*prefix, "ps", "-a", "--filter", label, "--format", "{{.Names}}"))
    for name in names.split():
        # The claim is older than the container, so one that is being started now is known here.
        if spool.read(name[len("longshore-") :]) is None and not failed:
            failed = _run((*prefix, "rm", "-f", "-v", name))[1]
    return failed


def _remove_secrets(prefix: tuple[str, ...], spool: Spool) -> str:
    """Remove secrets of ours that the spool does not know: they lie on the disk."""
    # Where a Podman is too old to know of secrets, none was left.
    names, _ = _run((*prefix, "secret", "ls", "--format", "{{.Name}}"))
    left = left_behind(spool, names.split())
    return _run((*prefix, "secret", "rm", *left))[1] if left else ""


def _run(command: tuple[str, ...]) -> tuple[str, str]:
    """Run a command for its output and return that, and why it failed ("" if it did not)."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)[:PROBLEM_CHARACTERS]
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0:
        return output, ""
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
    return output, (said or f"exit status {done.returncode}")[:PROBLEM_CHARACTERS]

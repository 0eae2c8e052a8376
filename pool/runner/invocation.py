"""What is executed for an order: its arguments, its environment, and its file of variables.

Arguments are everybody's to read in /proc, so the values of a user's environment are never among
them. Nor may they govern the engine's client, which runs as root outside of the container, nor any
of the programs that it starts, each with variables of its own: no name of a user's is ever in the
client's environment, whatever it is called. The client reads them from a file, which holds only
what fits on one line. What does not fit becomes a secret of Podman's; Docker has nothing like it.
"""

from __future__ import annotations

import os
import re
import sys
from typing import NamedTuple

from longshore.pool.runner import cgroups, images, inside, machine, scripts, secret_files
from longshore.pool.runner.engines import LABEL, ContainerEngine
from longshore.pool.runner.podman_secrets import MAX_SECRETS, secret_name
from longshore.pool.runner.secret_files import Readers, SecretPlaces
from longshore.pool.runner.spool import Spool
from longshore.pool.runner.wire import Refusal, StartOrder

MAX_STRING_BYTES = 131_072  # the kernel's limit for one argument or variable, its end included
RESERVED_BYTES = 16_384  # of the kernel's limit for all: the script, and what the programs add
DOOR_SUFFIX = "+api"
INSIDE = "/run/longshore"  # where a container finds the directory of its socket
FILE_LINE_BYTES = 65_000  # the engines refuse a file with a line of 64 KiB

# What a shell may neither drop, change nor interpret goes past it (`scripts.STEP`): as a plain
# variable go only names that mean nothing to a shell while it prepares the exec.
PLAIN_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
SHELL_NAME = re.compile(
    rb"_|_ls_.*|LC_.*|BASH.*|COMP.*|OPT(ARG|ERR|IND)|IFS|(OLD)?PWD|PPID|E?UID|SHELLOPTS|SHLVL"
    rb"|RANDOM|SRANDOM|SECONDS|LINENO|EPOCH.*|HIST.*|FUNCNAME|GROUPS|DIRSTACK|FUNCNEST"
    rb"|POSIXLY_CORRECT|PS[0-4]|TMOUT|PIPESTATUS|READLINE_.*|FCEDIT|TERM"
)


class Invocation(NamedTuple):
    """What the supervisor is spawned with; `variables` is the content of the file, b"" for none.

    `secrets` are the variables, name and value, that go past the file.
    """

    argv: list[bytes]
    env: dict[bytes, bytes]
    variables: bytes = b""
    secrets: tuple[tuple[bytes, bytes], ...] = ()


class Recipe(NamedTuple):
    """What invocations are made from: where we are, what the runner itself was called with."""

    spool: Spool
    engine: ContainerEngine
    environ: dict[str, str]

    def secret_places(self, order: StartOrder, *, bare: bool) -> SecretPlaces:
        """Return where the secrets of an order are to lie; Refusal when they cannot."""
        if bare and order.secrets.registries:
            raise Refusal("invalid", "a login at a registry is for an order with an image")
        return secret_files.places(self.spool, order.attempt_id, order.secrets, bare=bare)

    def bare(self, order: StartOrder) -> Invocation:
        """Return how an order is executed without a container; Refusal when it cannot be."""
        if order.image:
            remedy = "install podman or docker on the instance, or leave the image out"
            raise Refusal("invalid", f"the process engine runs no images: {remedy}")
        if not order.command:
            raise Refusal("invalid", "the process engine needs a command")
        work = self.work(order)
        env = {
            b"PATH": self.environ.get("PATH", machine.SYSTEM_PATH).encode(),
            b"HOME": work.encode(),
            b"LANG": self.environ.get("LANG", "C.UTF-8").encode(),
        }
        env.update(order.env)
        env.update(order.secrets.env)
        door = self.door(order.attempt_id, contained=False)
        if order.api and not inside.is_short(door):
            raise Refusal("invalid", f"its id is too long for the path of a Unix socket: {door}")
        env.update(self._own_variables(order, os.path.join(door, inside.SOCKET)))
        where = self.secret_places(order, bare=True)
        if where.files:
            env[secret_files.VARIABLE] = where.files.encode()
        given = _past_the_shell(env)
        given[b"_ls_work"] = work.encode()
        given[b"_ls_given"] = where.top.encode()
        given[b"_ls_uid"], given[b"_ls_gid"] = b"%d" % self.engine.uid, b"%d" % self.engine.gid
        given[b"_ls_step"] = scripts.STEP.encode()
        given[b"_ls_python"] = (sys.executable or machine.find_program("python3")).encode()
        if self.engine.drop:
            given[b"_ls_enter"] = scripts.ENTER.encode()
        script = scripts.for_process(self.engine.drop).encode()
        setsid = machine.find_program("setsid").encode()
        return Invocation([b"sh", b"-c", script, b"sh", setsid, b"--", *order.command], given)

    def work(self, order: StartOrder) -> str:
        """Return the path of an order's working directory without a container."""
        return os.path.join(self.engine.work, order.attempt_id)

    def door(self, attempt_id: str, *, contained: bool) -> str:
        """Return the path of the directory of an attempt's socket: no attempt has its name.

        Where the path of the socket would be too long, which a container never sees, it is apart.
        """
        place = self.spool.places.work if contained else self.engine.work
        directory = os.path.join(place, attempt_id + DOOR_SUFFIX)
        if contained or inside.is_short(directory):
            return directory
        return os.path.join(self.spool.places.apart, attempt_id + DOOR_SUFFIX)

    def contained(self, order: StartOrder, group: str) -> Invocation:
        """Return how an order is executed in a container; Refusal when it cannot be."""
        if not order.image:
            raise Refusal("invalid", f"the {self.engine.name} engine needs an image")
        name = container_name(order.attempt_id)
        label = f"{LABEL}={self.spool.places.name}"
        words = ["run", "--name", name, "--label", label, "--cgroup-parent", f"/{group}"]
        words += ["--cidfile", self.spool.path(order.attempt_id, "cid")]
        # Attached and without a log of the engine's: what it writes arrives here, once.
        words += ["--log-driver", "none"]
        # A health check is the image's own, runs beside the program, and nobody asks for its word.
        words += ["--no-healthcheck"]
        if self.engine.init and order.init:
            words += ["--init"]
        if self.engine.name == "podman":
            words += ["--quiet", "--cgroups=no-conmon"]
        words += ["--oom-score-adj", str(max(scripts.OOM_SCORE, machine.oom_score()))]
        words += self.engine.arguments
        if images.pull_policy(self.engine.arguments) not in ("missing", "never"):
            words += ["--pull", "missing"]  # it has just been fetched
        words += self._door_options(order)
        own = self._own_variables(order, f"{INSIDE}/{inside.SOCKET}")
        where = self.secret_places(order, bare=False)
        if where.files:
            own[secret_files.VARIABLE] = secret_files.MOUNTED_AT.encode()
            words += ["--volume", f"{where.files}:{secret_files.MOUNTED_AT}:{self._mounted}"]
        variables = (*order.env, *order.secrets.env)
        users = {key: value for key, value in variables if key not in own}
        lines, secrets = _divided(users, self.engine.name)
        if lines:
            words += ["--env-file", self.spool.path(order.attempt_id, "env")]
        names = [secret_name(self.spool, order.attempt_id, index) for index in range(len(secrets))]
        for secret, (key, _) in zip(names, secrets):
            words += ["--secret", f"{secret},type=env,target={key.decode()}"]
        argv = [word.encode() for word in words]
        # Nobody's secrets, and last, so that nothing else is called so.
        for key in sorted(own):
            argv += [b"--env", key + b"=" + own[key]]
        env = {os.fsencode(key): os.fsencode(value) for key, value in self.environ.items()}
        argv += _entrypoint(order)
        env[b"_ls_image"] = order.image.encode()
        env[b"_ls_pull"] = images.pull_policy(self.engine.arguments).encode()
        env[b"_ls_pull_limit"] = b"%d" % self.engine.pull_timeout_s
        env[b"_ls_asked"] = b"1" if order.command and order.entrypoint is None else b"0"
        env[b"_ls_news"] = self.spool.fifo.encode()
        env[b"_ls_secrets"] = " ".join(names).encode()
        env[b"_ls_given"], env[b"_ls_auth"] = where.top.encode(), where.auth.encode()
        env[b"_ls_name"] = name.encode()
        env[b"_ls_group"] = cgroups.tree(group).encode()
        env[b"_ls_limit"] = scripts.ANSWER_LIMIT_S
        env[b"_ls_events"] = cgroups.memory_events(group).encode() if order.memory_bytes else b""
        env[b"_ls_watch"] = b"1" if order.memory_bytes and not cgroups.unified() else b""
        script = scripts.for_supervisor(
            self.engine.prefix, self.engine.name, images.pull_options(self.engine.arguments)
        )
        argv = [b"sh", b"-c", script.encode(), b"sh", *argv, order.image.encode()]
        argv += [*(order.entrypoint or ())[1:], *order.command]
        return Invocation(argv, env, b"".join(lines), tuple(secrets))

    def _door_options(self, order: StartOrder) -> list[str]:
        if not order.api:
            return []
        # Read-only, or it could lay a link there for us to follow; it may connect all the same.
        return ["--volume", f"{self.door(order.attempt_id, contained=True)}:{INSIDE}:ro"]

    def readers(self, *, bare: bool) -> Readers:
        """Return who is to read the files of an order's secrets.

        Podman gives them to the container's own user by itself, if root asks; elsewhere nobody
        knows before which user of the image that is.
        """
        if bare:
            return Readers(self.engine.uid, self.engine.gid)
        return Readers(everybody=self.engine.name != "podman" or os.geteuid() != 0)

    @property
    def _mounted(self) -> str:
        return "ro,Z" if self.readers(bare=False).everybody else "ro,Z,U"

    def _own_variables(self, order: StartOrder, path: str) -> dict[bytes, bytes]:
        """Return what we tell an attempt; `path` is where it finds the socket of the API."""
        own = {
            "LONGSHORE_CONTAINER_ID": order.container_id,
            "LONGSHORE_ATTEMPT_ID": order.attempt_id,
            "LONGSHORE_CLUSTER": os.path.basename(os.path.dirname(self.spool.places.logs)),
            "LONGSHORE_SPOOL": self.spool.places.name,
        }
        if self.environ.get("LONGSHORE_INSTANCE_ID"):
            own["LONGSHORE_INSTANCE_ID"] = self.environ["LONGSHORE_INSTANCE_ID"]
        if order.api:
            own["LONGSHORE_URL"] = f"unix://{path}"
        return {name.encode(): os.fsencode(value) for name, value in own.items()}


def _entrypoint(order: StartOrder) -> list[bytes]:
    """Return what gives an order's entrypoint to an engine; what follows its first word does not.

    The engines take one word (Podman a list as well, Docker not): the others go before the command.
    """
    if order.entrypoint is None:
        return []
    return [b"--entrypoint", order.entrypoint[0] if order.entrypoint else b""]


def container_name(attempt_id: str) -> str:
    """Return the name of an attempt's container."""
    return f"longshore-{attempt_id}"


def _past_the_shell(env: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return variables that carry `env` through a shell to its exec, whatever the names are."""
    given = {}
    for index, name in enumerate(sorted(env)):
        given[b"_ls_e%d" % index] = name + b"=" + env[name]
    plain = all(PLAIN_NAME.fullmatch(name) and not SHELL_NAME.fullmatch(name) for name in env)
    given[b"_ls_count"] = b"%d" % len(env)
    given[b"_ls_plain"] = b"1" if plain else b""
    return given


def _divided(
    users: dict[bytes, bytes], engine: str
) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the lines of the engine's file, and the variables that no line of it can hold."""
    lines = []
    secrets = []
    unspeakable = []
    for name in sorted(users):
        text = name.decode("utf-8")
        line = name + b"=" + users[name]
        if not text.isprintable() or " " in text or text.startswith("#"):
            unspeakable.append(name)
        # The engines take a carriage return at the end of a line for a part of the line's end.
        elif b"\n" not in line and not line.endswith(b"\r") and len(line) <= FILE_LINE_BYTES:
            lines.append(line + b"\n")
        else:
            secrets.append((name, users[name]))
    problems = _problems_of_secrets([name for name, _ in secrets], engine)
    if unspeakable:
        problems.insert(0, f"no container can have a variable called {_some(unspeakable)}")
    if problems:
        raise Refusal("invalid", "; ".join(problems))
    return lines, secrets


def _problems_of_secrets(names: list[bytes], engine: str) -> list[str]:
    """Return why these variables cannot be given past the engine's file."""
    what = "what is longer than 65,000 bytes, has more than one line or ends in a carriage return"
    remedy = "give it in another encoding or in a file"
    if names and engine != "podman":
        return [f"{engine} cannot be given {what}, as {_some(names)}: {remedy}"]
    problems = []
    odd = [name for name in names if not PLAIN_NAME.fullmatch(name)]
    if odd:
        problems.append(f"{what} needs a name of letters, digits and underscores: {_some(odd)}")
    if len(names) > MAX_SECRETS:
        problems.append(f"of {what} there can be {MAX_SECRETS}, not {len(names)}: {remedy}")
    return problems


def _some(names: list[bytes]) -> str:
    """Return the first of the names for a message, and how many there are beyond."""
    shown = ", ".join(repr(name.decode("utf-8")[:40]) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


def check_sizes(invocation: Invocation) -> None:
    """Refuse what the kernel would not execute."""
    variables = (*invocation.env.items(), *invocation.secrets)
    strings = [*invocation.argv, *(name + b"=" + value for name, value in variables)]
    if max(map(len, strings)) >= MAX_STRING_BYTES:
        limit = MAX_STRING_BYTES
        raise Refusal("too_large", f"no argument or variable can be as long as {limit} bytes")
    total = sum(len(each) + 9 for each in strings) + len(invocation.variables) + RESERVED_BYTES
    limit = os.sysconf("SC_ARG_MAX")
    if total > limit:
        raise Refusal("too_large", f"command and environment need {total} bytes of {limit}")

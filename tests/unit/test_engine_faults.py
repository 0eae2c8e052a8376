"""What engines say of a request's own fault, and what is their own."""

from __future__ import annotations

import pytest

from longshore.pool.runner import images
from longshore.pool.runner.engine_faults import is_of_the_request, unexecuted

RUNC = "Error: runc: runc create failed: unable to start container process: "
OF_THE_REQUEST = [
    (125, "Error: initializing source docker://a/b: reading manifest x: manifest unknown"),
    (125, 'Error: short-name "nosuch" did not resolve to an alias and no registries are defined'),
    (125, "Error: x: unable to retrieve auth token: invalid username/password: unauthorized"),
    (
        125,
        "docker: Error response from daemon: pull access denied for x.\nSee 'docker run --help'.",
    ),
    (125, "docker: Error response from daemon: manifest for x:y not found: manifest unknown"),
    (125, "docker: invalid reference format: repository name must be lowercase."),
    (125, 'Error: pinging container registry localhost: Get "https://localhost/v2/": refused'),
    (126, 'Error: runc: exec: "/tmp": permission denied: OCI permission denied'),
    (127, 'Error: exec: "/no": stat /no: no such file or directory: OCI runtime attempted …'),
    (127, "Error: crun: executable file `no` not found in $PATH: No such file or directory"),
    (126, "Error: crun: open executable: Permission denied: OCI permission denied"),
    (
        127,
        'docker: Error response from daemon: exec: "no": executable file not found in $PATH: …',
    ),
    (126, f'{RUNC}chdir to cwd ("/no") set in config.json failed: no such file or directory'),
]
# The first are a runtime that may not do what it must, of an engine that passes for working.
OF_THE_INSTANCE = [
    (
        126,
        f"{RUNC}error setting rlimit type 7: operation not permitted: OCI permission denied",
    ),
    (126, f"{RUNC}error mounting proc: permission denied: OCI permission denied"),
    (126, "Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied"),
    (126, "Error: crun: open `/proc/sys/net/ipv4/x`: Permission denied: OCI permission denied"),
    (127, "Error: crun: cannot stat `/dev/fuse`: No such file or directory: OCI runtime attempted"),
    (127, "Error: default OCI runtime crun not found: invalid argument"),
    (125, "Error: creating container storage: open /var/lib/containers: no such file or directory"),
    (125, "Error: mounting storage for container x: input/output error"),
    (125, "Error: writing blob: adding layer: no space left on device"),
    (125, "Error: pinging container registry docker.io: dial tcp: lookup docker.io: i/o timeout"),
    (125, "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock."),
    (126, "Error: container create failed (no logs from conmon): conmon bytes: readObjectStart"),
    (125, ""),
    (None, ""),
]


@pytest.mark.parametrize(("code", "said"), OF_THE_REQUEST)
def test_what_fails_anywhere_is_the_requests(code: int, said: str) -> None:
    assert is_of_the_request(code, f"Trying to pull x…\n{said}\n")


@pytest.mark.parametrize(("code", "said"), OF_THE_INSTANCE)
def test_what_may_work_elsewhere_is_the_instances(code: int | None, said: str) -> None:
    assert not is_of_the_request(code, said)


FORMAT = (
    "its program cannot be executed: exec format error: "
    "it is made for another kind of processor, or is a script without a line #!"
)
MISSING = "its program cannot be executed: no such file or directory"


@pytest.mark.parametrize(
    ("code", "said", "why"),
    [
        (1, "exec /bad: exec format error\n", FORMAT),
        (1, "standard_init_linux.go:228: exec user process caused: exec format error\n", FORMAT),
        (1, "exec /script: no such file or directory\n", MISSING),
        (127, "exec container process `/bad`: Exec format error\n", FORMAT),
        (1, "ERROR (catatonit:6): failed to exec pid1: No such file or directory\n", MISSING),
        (127, "[FATAL tini (7)] exec /no such failed: No such file or directory\n", MISSING),
        (127, "/bad: line 1: \x7fELF\x02\x01: not found\n", FORMAT),
        (2, "/bad: 1: \x7fELF: not found\n/bad: 3: Syntax error: word unexpected\n", FORMAT),
        (126, "/bad: /bad: cannot execute binary file\n", FORMAT),
        (1, "/bad: exec format error\n", ""),
        (1, "hello\nexec /bad: exec format error\n", ""),
        (1, "exec /bad: exec format error\nhello\n", ""),
        (2, "exec /bad: exec format error\n", ""),
        (0, "exec /bad: exec format error\n", ""),
        (1, "", ""),
    ],
)
def test_a_program_that_was_never_executed_is_told_from_one_that_failed(
    code: int, said: str, why: str
) -> None:
    assert unexecuted(code, 0, said) == why
    assert not unexecuted(code, 1, said), "what wrote to stdout ran"


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("/bad", 'program "/bad" cannot'),
        ("a b\n", 'program "a b\\n" cannot'),
        ("x" * 200, f'program "{"x" * 120}…" cannot'),
        ("", "program cannot"),
    ],
)
def test_which_program_cannot_be_executed_is_told_though_an_init_does_not_say(
    program: str, named: str
) -> None:
    said = "ERROR (catatonit:6): failed to exec pid1: No such file or directory\n"
    told = unexecuted(1, 0, said, program)
    assert told == f"its {named} be executed: no such file or directory"


IMAGE = '0 {"entrypoint":["/entry","x"],"command":["/cmd","y"]}\n'
BARE = '0 {"entrypoint":null,"command":["/cmd"]}\n'


@pytest.mark.parametrize(
    ("record", "own", "overrides", "found"),
    [
        (IMAGE, "", False, "/entry"),
        (IMAGE, "given", False, "/entry"),
        (IMAGE, "given", True, "given"),
        (BARE, "given", False, "given"),
        (BARE, "", False, "/cmd"),
        (IMAGE, "", True, "/cmd"),
        ("", "given", True, "given"),
        ("", "given", False, ""),
        ("0 null\n", "given", False, "given"),
        ("0 null\n", "", False, ""),
        ('0 {"entrypoint":"odd"', "given", False, ""),
    ],
)
def test_the_program_is_the_first_word_that_counts(
    record: str, own: str, overrides: bool, found: str
) -> None:
    assert images.program(record, own, overrides=overrides) == found

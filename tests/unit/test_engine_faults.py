"""What engines say of a request's own fault, and what is their own."""

from __future__ import annotations

import pytest

from pool.runner.engine_faults import is_of_the_request

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
]
OF_THE_INSTANCE = [
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

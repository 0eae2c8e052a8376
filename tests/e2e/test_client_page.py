"""The page on the client library: its examples run against a real server, and it names all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore import client
from longshore.dispatcher.client.calls import ENDPOINTS
from tests.dispatcher_process import DispatcherProcess

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT.joinpath("docs/client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = [
    r"0\nb'hello\\n'\n",
    r"3 ReasonAnswer\(.*\)\nfailed \[1, 0\]\n",
    r"1\n2\n3\n",
    r"(running\n|queued\n|locked\n)*succeeded\n",
    r"cpus .*\nmemory .*\n",
    r"True\n",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DispatcherProcess]:
    with DispatcherProcess(tmp_path_factory.mktemp("server"), {}) as running:
        yield running


def test_each_example_has_what_it_prints() -> None:
    assert len(EXAMPLES) == len(PRINTED) > 5


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_an_example_runs(server: DispatcherProcess, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LONGSHORE_URL": server.url},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(PRINTED[number], done.stdout), done.stdout


def test_the_page_names_every_method_and_every_error() -> None:
    codes = set(re.findall(r"`(\w+)`", PAGE))
    assert set(ENDPOINTS) | {"submit_many"} <= codes
    of_few = {"ClientError", "RefusedError", "SeveralContainersError"}
    errors = {name for name in client.__all__ if name.endswith("Error")}
    assert errors - of_few <= codes


def test_what_is_exported_is_there_and_the_async_client_is_imported_when_it_is_asked_for() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []
    probe = (
        "import sys, longshore.client\n"
        "print('aiohttp' in sys.modules)\n"
        "print(longshore.client.AsyncClient.__name__, 'aiohttp' in sys.modules)\n"
        "try: longshore.client.AsyncNothing\n"
        "except AttributeError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines() == [
        "False",
        "AsyncClient True",
        "module 'longshore.client' has no attribute 'AsyncNothing'",
    ]

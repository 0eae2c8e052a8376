"""Reading what `nvidia-smi pmon` says, in the formats in which it says it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from longshore.pool.runner import gpus
from longshore.pool.runner.gpus import FIRST_S, INTERVAL_S, MIB, GpuUse, GpuWatch, parse_pmon
from longshore.pool.runner.usage import Samples
from tests.runner_harness import eventually

OF_535 = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name
    0       4242     C     35     10      -      -      -      -   1234      0    python
    1       4242     C     85     10      -      -      -      -    766      0    python
    1         77     G      -      -      -      -      -      -     10      0    Xorg
    2          -     -      -      -      -      -      -      -      -      -    -
"""
OF_418 = """\
# gpu        pid  type    sm   mem   enc   dec    fb   command
# Idx          #   C/G     %     %     %     %    MB   name
    0       4242     C    100    10     -     -    64   python
"""


def test_columns_are_found_by_their_names() -> None:
    assert parse_pmon(OF_535) == [
        GpuUse(4242, 1234 * MIB, 0.35),
        GpuUse(4242, 766 * MIB, 0.85),
        GpuUse(77, 10 * MIB, None),
    ]
    assert parse_pmon(OF_418) == [GpuUse(4242, 64 * MIB, 1.0)]


@pytest.mark.parametrize("said", ["", "NVIDIA-SMI has failed\n", "# gpu pid\n0\n", "0 42 C 1 1\n"])
def test_what_says_nothing_of_processes_tells_nothing(said: str) -> None:
    assert parse_pmon(said) == []


def test_gpus_are_added_up_at_a_look_and_averaged_over_looks() -> None:
    samples = Samples(0.0).with_gpus([GpuUse(1, 3, 0.2), GpuUse(1, 4, 0.6)])
    samples = samples.with_gpus([GpuUse(1, 5, 0.8), GpuUse(2, None, None)])
    fields = samples.fields()
    assert fields["gpu_peak_memory_bytes"] == 7
    assert fields["gpu_mean_utilization"] == pytest.approx(0.6)
    assert Samples(0.0).with_gpus([GpuUse(1, None, None)]).fields() == {}


def program(directory: Path, script: str) -> str:
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_it_is_asked_once_in_a_while_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "TIMEOUT_S", b"5")
    (tmp_path / "says").write_text(OF_418)
    os.mkfifo(tmp_path / "gate")
    asked = tmp_path / "asked"
    script = f'echo "$*" >>{asked}; read -r _ <{tmp_path}/gate; cat {tmp_path}/says'
    watch = GpuWatch(program(tmp_path, script))
    assert watch.tick(100.0) == []
    assert watch.tick(100.0 + FIRST_S) == []
    eventually(asked.exists)
    began = time.monotonic()
    assert watch.tick(100.0 + 3 * INTERVAL_S) == [], "it has not answered yet"
    assert time.monotonic() < began + 5
    (tmp_path / "gate").write_text("go\n")
    found: list[GpuUse] = []

    def answered() -> bool:
        found[:] = watch.tick(100.0 + FIRST_S)
        return bool(found)

    eventually(answered, 15.0)
    os.wait()  # the collector leaves that to the kernel
    assert found == parse_pmon(OF_418)
    assert asked.read_text() == "pmon -c 1 -s um\n", "and no other was spawned meanwhile"


def test_without_the_program_there_is_nothing_to_tell() -> None:
    watch = GpuWatch("")
    assert [watch.tick(at) for at in (0.0, 100.0, 200.0)] == [[], [], []]

"""Reading what the kernel counts, in the formats in which it writes it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from longshore.pool.runner import containment
from longshore.pool.runner.meter import Meter, finish
from longshore.pool.runner.spool import Spool, attempt_of, places
from longshore.pool.runner.usage import (
    SAMPLED,
    Reading,
    Samples,
    disk_bytes,
    keyed,
    number_in,
    of_group,
    of_groups_v1,
    of_processes,
    of_waited_for,
    read_samples,
    told,
    waited_for_s,
)

IO_STAT = """\
8:0 rbytes=4096 wbytes=10485760 rios=1 wios=12 dbytes=0 dios=0
259:1 rbytes=1 wbytes=2 rios=1 wios=1 dbytes=0 dios=0
7:0
"""
CPU_STAT = "usage_usec 1250000\nuser_usec 1000000\nsystem_usec 250000\nnr_periods 0\n"
MEMORY_STAT = """\
anon 900
file 100
file_dirty 20
file_writeback 10
inactive_anon 0
inactive_file 60
total_inactive_file 50
"""
STATUS = "Name:\tpython3\nVmPeak:\t  300 kB\nVmHWM:\t  220 kB\nVmRSS:\t  210 kB\nThreads:\t1\n"
STAT = (
    "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 1 2 0 0 7 8 150 25 20 0 1 0 999 4096 100"
    " 18446744073709551615 0 0\n"
)


def test_the_one_number_of_a_file() -> None:
    assert number_in("4096\n") == 4096
    assert number_in("max\n") is None
    assert number_in("") is None


def test_numbers_behind_keys() -> None:
    assert keyed(CPU_STAT, "usage_usec") == 1_250_000
    assert keyed(STATUS, "VmHWM") == 220
    assert keyed(STATUS, "VmSwap") is None
    assert keyed("", "usage_usec") is None
    assert keyed("usage_usec\n", "usage_usec") is None


def test_bytes_of_disks_are_added_up() -> None:
    assert disk_bytes(IO_STAT) == (4097, 10_485_762)


def test_no_account_of_disks_is_missing_and_an_empty_one_is_none() -> None:
    assert disk_bytes("") == (0, 0)
    assert disk_bytes(None) == (None, None)


def test_the_time_of_those_whose_end_was_waited_for() -> None:
    assert waited_for_s(STAT) == pytest.approx(175 / os.sysconf("SC_CLK_TCK"))
    assert waited_for_s("") is None


def write(directory: Path, **files: str) -> None:
    directory.mkdir(parents=True)
    for name, text in files.items():
        Path(directory, name.replace("__", ".")).write_text(text)


def test_a_group_of_version_2(tmp_path: Path) -> None:
    group = tmp_path / "group"
    write(
        group,
        memory__current="1000\n",
        memory__peak="5000\n",
        memory__stat=MEMORY_STAT,
        cpu__stat=CPU_STAT,
        io__stat=IO_STAT,
    )
    assert of_group(str(group)) == Reading(940, 5000, 1.25, 4097, 10_485_762 + 30)
    (group / "memory.peak").unlink()  # before Linux 5.19
    (group / "io.stat").unlink()  # without the controller
    assert of_group(str(group)) == Reading(940, None, 1.25)
    assert of_group(str(tmp_path / "none")) == Reading()


def test_groups_of_version_1(tmp_path: Path) -> None:
    write(
        tmp_path / "memory/p/a",
        memory__usage_in_bytes="1000\n",
        memory__max_usage_in_bytes="5000\n",
        memory__stat=MEMORY_STAT,
    )
    write(tmp_path / "cpuacct/p/a", cpuacct__usage="1250000000\n")
    assert of_groups_v1(str(tmp_path), "p/a") == Reading(950, 5000, 1.25)
    assert of_groups_v1(str(tmp_path), "p/b") == Reading()


def test_memory_and_disks_are_counted_where_the_machine_lets_us(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    control = tmp_path / "cgroup.subtree_control"
    asked: list[str] = []
    os.mkfifo(control)  # it keeps what is written one after the other, as the kernel's file does
    reading = os.open(control, os.O_RDONLY | os.O_NONBLOCK)
    try:
        containment.count(str(tmp_path))
        asked += os.read(reading, 100).decode().split("+")
    finally:
        os.close(reading)
    assert asked == ["", "io", "memory"]
    containment.count(str(tmp_path / "none"))


def test_a_group_in_which_nothing_has_run_has_no_memory_to_tell(tmp_path: Path) -> None:
    write(tmp_path / "g", memory__current="0\n", memory__peak="0\n", memory__stat="")
    assert of_group(str(tmp_path / "g")) == Reading()


def test_processes_that_are_there_and_that_are_not() -> None:
    own = of_processes([os.getpid()])
    assert own.memory_bytes
    assert own.peak_bytes
    assert own.peak_bytes >= own.memory_bytes > 2**20
    assert of_processes([]) == of_processes([2**22 + 1]) == Reading()
    assert of_waited_for(2**22 + 1) == Reading()


def test_memory_is_averaged_over_the_time_that_it_was_in_use() -> None:
    samples = Samples(100.0).after(Reading(1000), 101.0).after(Reading(4000), 103.0)
    assert samples.fields() == {"peak_memory_bytes": 4000, "mean_memory_bytes": 3000}
    later = samples.after(Reading(peak_bytes=9000, cpu_seconds=2.0), 110.0)
    assert later.fields() == {
        "peak_memory_bytes": 9000,
        "mean_memory_bytes": 3000,
        "cpu_seconds": 2.0,
    }


def test_counters_never_go_back() -> None:
    """A group of the engine's is gone before ours is, and its bytes with it."""
    before = Samples(0.0).after(Reading(7, 9, 2.0, 30, 40), 1.0)
    after = before.after(Reading(None, 8, 1.0, 0, 0), 2.0).fields()
    assert after == {
        "peak_memory_bytes": 9,
        "mean_memory_bytes": 7,
        "cpu_seconds": 2.0,
        "read_bytes": 30,
        "written_bytes": 40,
    }


def test_what_nobody_measured_is_missing() -> None:
    assert Samples(1.0).after(Reading(), 5.0).fields() == {}
    assert Samples(1.0).after(Reading(read_bytes=0), 5.0).fields() == {"read_bytes": 0}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    where = places("c", {"LONGSHORE_RUNNER_DIR": str(tmp_path)})
    return Spool(where._replace(spool=str(tmp_path / "spool")))


def claim(spool: Spool, attempt_id: str, group: Path | None) -> None:
    attempt = attempt_of(attempt_id, "c", "process", spool.boot_id, str(group or ""))
    lock = spool.claim(attempt)
    assert lock is not None
    os.close(lock)


def test_looks_get_rarer_and_go_on_where_another_has_ended(spool: Spool, tmp_path: Path) -> None:
    write(tmp_path / "g", memory__current="1000\n", memory__stat="", cpu__stat=CPU_STAT)
    claim(spool, "a", tmp_path / "g")
    attempt = spool.read("a")
    assert attempt is not None
    meter = Meter(spool)
    meter.follow(attempt, 0.1)
    meter.follow(attempt, 0.2)
    looks: list[float] = []
    for _ in range(29):
        assert meter.due_at is not None
        looks.append(meter.due_at)
        meter.tick(looks[-1])
    gaps = [after - before for before, after in itertools.pairwise(looks)]
    assert looks[:4] == [0.25, 0.5, 0.75, 1.0]
    assert gaps == sorted(gaps)
    assert gaps[-1] == 4.0
    assert looks[-1] > 35

    (tmp_path / "g" / "memory.current").write_text("3000\n")
    successor = Meter(spool)
    successor.follow(attempt, looks[-1])
    successor.tick(2 * looks[-1])
    seen = read_samples(spool.path("a", SAMPLED))
    assert seen is not None
    assert seen.fields()["mean_memory_bytes"] == pytest.approx(2000, abs=10)


def test_an_attempt_that_has_ended_is_looked_at_no_more(spool: Spool, tmp_path: Path) -> None:
    write(tmp_path / "g", memory__current="1000\n", memory__peak="1500\n", memory__stat="")
    claim(spool, "a", tmp_path / "g")
    attempt = spool.read("a")
    assert attempt is not None
    meter = Meter(spool)
    meter.follow(attempt, 0.0)
    meter.tick(0.25)
    Path(spool.path("a", "exit")).write_text("0 0 ran\n")
    (tmp_path / "g" / "memory.current").write_text("9000\n")
    meter.tick(0.5)
    assert meter.due_at is None
    (tmp_path / "g" / "memory.peak").write_text("1600\n")
    finish(spool, attempt)
    assert told(spool.path("a")) == {"peak_memory_bytes": 1600, "mean_memory_bytes": 1000}
    exit_ = spool.exit_of(attempt)
    assert exit_ is not None
    assert exit_["usage"] == {"peak_memory_bytes": 1600, "mean_memory_bytes": 1000}


def test_what_was_sampled_is_told_of_one_that_is_lost(spool: Spool, tmp_path: Path) -> None:
    write(tmp_path / "g", memory__current="1000\n", memory__stat="")
    claim(spool, "a", tmp_path / "g")
    attempt = spool.read("a")
    assert attempt is not None
    meter = Meter(spool)
    meter.follow(attempt, 0.0)
    meter.tick(0.25)
    spool.record_lost("a")
    exit_ = spool.exit_of(attempt)
    assert exit_ is not None
    assert exit_["kind"] == "lost"
    assert exit_["usage"] == {"peak_memory_bytes": 1000, "mean_memory_bytes": 1000}


def test_what_never_ran_has_no_usage(spool: Spool, tmp_path: Path) -> None:
    write(tmp_path / "g", memory__current="0\n", memory__peak="0\n", cpu__stat=CPU_STAT)
    claim(spool, "a", tmp_path / "g")
    attempt = spool.read("a")
    assert attempt is not None
    Path(spool.path("a", "exit")).write_text("125 0 never\n")
    finish(spool, attempt)
    exit_ = spool.exit_of(attempt)
    assert exit_ is not None
    assert exit_["kind"] == "engine_failure"
    assert "usage" not in exit_


def test_the_times_of_another_process_with_the_pid_of_the_supervisor_are_not_taken(
    spool: Spool,
) -> None:
    claim(spool, "a", None)
    attempt = spool.read("a")
    assert attempt is not None
    record = Path(spool.path("a", "job"))
    # As if ours had been a supervisor whose job began before us, and after us.
    for began, there in ((1, False), (2**60, True)):
        record.write_text(f"1 {began} {os.getpid()}\n")
        finish(spool, attempt)
        assert ("cpu_seconds" in told(spool.path("a"))) is there


def test_before_its_supervisor_is_recorded_nothing_is_told_of_an_attempt(spool: Spool) -> None:
    """Every process of the machine descends from the one that has no pid."""
    claim(spool, "a", None)
    attempt = spool.read("a")
    assert attempt is not None
    meter = Meter(spool)
    meter.follow(attempt, 0.0)
    meter.tick(0.25)
    assert read_samples(spool.path("a", SAMPLED)) == Samples(0.25)
    Path(spool.path("a", "job")).write_text(f"1 1 {os.getppid()}\n")
    meter.tick(0.5)
    seen = read_samples(spool.path("a", SAMPLED))
    assert seen is not None
    assert seen.peak_bytes, "we are one of those below our parent"

"""A small peer that speaks the session's protocol on an instance, and misbehaves when told to.

It is deployed in the runner's place by tests of the dispatcher's side, so it uses the standard
library only. `--engine-json '{"misbehave": …}'` makes it: refuse, garbage (a line of nonsense
after the hello), silent (no heartbeats), mute (never answers a request), long_line, no_hello,
empty_list (only the hello tells what there is).
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHUNK_BYTES = 32 * 1024
POLL_S = 0.005


class Spool:
    def __init__(self, cluster: str) -> None:
        self.root = Path(os.environ["LONGSHORE_RUNNER_DIR"]) / cluster / "spool"
        self.root.mkdir(parents=True, exist_ok=True)

    def attempts(self) -> list[str]:
        return sorted(each.parent.name for each in self.root.glob("*/container"))

    def exit_of(self, attempt_id: str) -> dict[str, Any] | None:
        place = self.root / attempt_id
        if not (place / "exit").exists():
            return None
        return {
            "kind": "exited",
            "code": int((place / "exit").read_text()),
            "message": "",
            "started_at": (place / "container").stat().st_mtime,
            "finished_at": (place / "exit").stat().st_mtime,
            "stdout_bytes": (place / "stdout").stat().st_size,
            "stderr_bytes": (place / "stderr").stat().st_size,
        }

    def reports(self) -> list[dict[str, Any]]:
        return [
            {
                "attempt_id": each,
                "container_id": (self.root / each / "container").read_text(),
                "exit": self.exit_of(each),
            }
            for each in self.attempts()
        ]

    def start(self, order: dict[str, Any]) -> bool:
        place = self.root / order["attempt_id"]
        if place.exists():
            return True
        place.mkdir()
        for stream in ("stdout", "stderr"):
            (place / stream).touch()
        script = '"$@" >stdout 2>stderr; echo $? >exit.new; mv exit.new exit'
        process = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *order["command"]],
            cwd=place,
            env={**os.environ, **order["env"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        (place / "pid").write_text(str(process.pid))
        (place / "container").write_text(order["container_id"])
        return False

    def release(self, attempt_id: str) -> bool:
        if self.exit_of(attempt_id) is None:
            return False
        trash = self.root.with_name(f"trash-{attempt_id}")
        (self.root / attempt_id).rename(trash)
        shutil.rmtree(trash)
        return True

    def kill(self, attempt_id: str, name: str) -> None:
        process_group = int((self.root / attempt_id / "pid").read_text())
        os.killpg(process_group, signal.Signals[f"SIG{name}"])


class Attach:
    def __init__(self, spool: Spool, cluster: str, misbehave: str) -> None:
        self.spool = spool
        self.cluster = cluster
        self.misbehave = misbehave
        self.tails: dict[tuple[str, str], int] = {}
        self.told: set[str] = set()
        self.input = b""

    def say(self, message: dict[str, Any]) -> None:
        self.write(json.dumps(message))

    def write(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def run(self) -> None:
        hello = json.loads(sys.stdin.buffer.readline())
        if self.misbehave == "no_hello":
            sys.exit("this runner says no hello")
        if self.misbehave == "refuse":
            self.say({"type": "refused", "code": "epoch", "message": "a higher one leads"})
            return
        self.say(
            {
                "type": "hello",
                "protocol": 1,
                "cluster": self.cluster,
                "epoch": hello["epoch"],
                "runner_sha256": hello["runner_sha256"],
                "boot_id": "boot-1",
                "engine": "process",
                "attempts": self.spool.reports(),
                "broken": "",
            }
        )
        if self.misbehave == "garbage":
            self.write("this is no message")
        if self.misbehave == "long_line":
            self.write("x" * (1024 * 1024 + 10))
        self.serve(hello["heartbeat_interval_s"])

    def serve(self, interval_s: float) -> None:
        beat_at = 0.0
        while True:
            readable, _, _ = select.select([0], [], [], POLL_S)
            if readable:
                data = os.read(0, 65536)
                if not data:
                    return
                self.input += data
                *lines, self.input = self.input.split(b"\n")
                for line in lines:
                    self.take(json.loads(line))
            self.push()
            if self.misbehave != "silent" and time.monotonic() >= beat_at:
                beat_at = time.monotonic() + interval_s
                self.say({"type": "heartbeat", "live": [], "broken": self.broken()})

    def broken(self) -> str:
        note = Path(os.environ["LONGSHORE_RUNNER_DIR"]) / "broken"
        return note.read_text() if note.exists() else ""

    def take(self, request: dict[str, Any]) -> None:
        if request["type"] == "log_ack" or self.misbehave == "mute":
            return
        answer: dict[str, Any] = {"type": "reply", "id": request["id"], "ok": True}
        match request["type"]:
            case "start":
                order = request["attempt"]
                if order["image"]:
                    answer |= {"ok": False, "code": "image", "message": "no such image"}
                else:
                    answer["already"] = self.spool.start(order)
                    self.tails[order["attempt_id"], "stdout"] = 0
                    self.tails[order["attempt_id"], "stderr"] = 0
            case "kill":
                self.spool.kill(request["attempt_id"], request["signal"])
            case "tail":
                (self.spool.root.parents[1] / "tails").write_text(json.dumps(request))
                for stream in ("stdout", "stderr"):
                    self.tails[request["attempt_id"], stream] = request[stream]
            case "release":
                answer["kept"] = not self.spool.release(request["attempt_id"])
                if not answer["kept"]:
                    self.tails.pop((request["attempt_id"], "stdout"), None)
                    self.tails.pop((request["attempt_id"], "stderr"), None)
        self.say(answer)

    def push(self) -> None:
        for attempt_id in self.spool.attempts():
            how = self.spool.exit_of(attempt_id)
            if how is not None and attempt_id not in self.told:
                self.told.add(attempt_id)
                container = (self.spool.root / attempt_id / "container").read_text()
                self.say(
                    {
                        "type": "exited",
                        "attempt_id": attempt_id,
                        "container_id": container,
                        "exit": how,
                    }
                )
        for (attempt_id, stream), offset in sorted(self.tails.items()):
            with (self.spool.root / attempt_id / stream).open("rb") as file:
                file.seek(offset)
                data = file.read(CHUNK_BYTES)
            if data:
                self.tails[attempt_id, stream] = offset + len(data)
                self.say(
                    {
                        "type": "log",
                        "attempt_id": attempt_id,
                        "stream": stream,
                        "offset": offset,
                        "data": base64.b64encode(data).decode(),
                    }
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["list", "attach"])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--engine-json", required=True)
    arguments = parser.parse_args()
    spool = Spool(arguments.cluster)
    misbehave = json.loads(arguments.engine_json).get("misbehave", "")
    if arguments.verb == "attach":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        Attach(spool, arguments.cluster, misbehave).run()
        return
    listing = {
        "protocol": 1,
        "cluster": arguments.cluster,
        "boot_id": "boot-1",
        "engine": "process",
        "attempts": [] if misbehave == "empty_list" else spool.reports(),
        "broken": "",
    }
    sys.stdout.write(json.dumps(listing) + "\n")


if __name__ == "__main__":
    main()

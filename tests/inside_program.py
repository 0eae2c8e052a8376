"""A client inside of a container, of the standard library only: tests run it there.

`python inside_program.py submit N` submits N children, one by one, each with a key of its own, and
asks again until each is taken; `python inside_program.py ask` reads lines "METHOD PATH [BODY]" from
the file named by the second argument, and prints each answer as a line of JSON.
"""

import http.client
import json
import os
import pathlib
import socket
import sys
import time

PATIENCE_S = 240.0


class Inside(http.client.HTTPConnection):
    """A connection to the socket that `LONGSHORE_URL` names."""

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(os.environ["LONGSHORE_URL"][len("unix://") :])


def ask(method: str, path: str, body: str = "", key: str = "") -> "tuple[int, str]":
    """Return the status and the body of one answer."""
    connection = Inside("localhost")
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    try:
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def insist(method: str, path: str, body: str, key: str) -> "tuple[int, str]":
    """Return the answer once there is one, however often the server is gone meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            status, text = ask(method, path, body, key)
        except (OSError, http.client.HTTPException) as error:
            status, text = 503, str(error)
        if status not in (429, 503) or time.monotonic() > deadline:
            return status, text
        time.sleep(0.1)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Do what the arguments say."""
    if sys.argv[1] == "submit":
        child = json.dumps({"command": ["true"], "priority": 0, "memory": "4MiB"})
        for number in range(int(sys.argv[2])):
            status, text = insist("POST", "/v1/containers", child, f"child-{number}")
            if status != 201:
                sys.exit(f"{number}: {status} {text}")
            say(json.loads(text)["id"])
        return
    with pathlib.Path(sys.argv[2]).open(encoding="utf-8") as lines:
        for line in lines:
            method, path, body = (line.strip() + "  ").split(" ", 2)
            status, text = ask(method, path, body.strip())
            say(json.dumps([status, text]))


if __name__ == "__main__":
    main()

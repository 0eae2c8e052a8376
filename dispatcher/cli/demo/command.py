"""`longshore demo`: a real server on a simulated cloud, ten containers, and proof that it worked.

Nothing in it is staged: a real HTTP server, real SSH to every instance, real processes on this
machine. Only the cloud is simulated, so that it costs nothing.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import UNFINISHED_STATES, is_final, read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.commands.configuration import config_failure
from longshore.dispatcher.cli.commands.instances import INSTANCES_LIMIT_MAX
from longshore.dispatcher.cli.commands.logs import Tail
from longshore.dispatcher.cli.demo.report import LineScreen, LiveScreen, print_tables
from longshore.dispatcher.cli.demo.scenario import (
    ALONE,
    DEADLINE_S,
    LIST,
    PROMISES,
    QUOTA_INSTANCES,
    configuration,
)
from longshore.dispatcher.cli.demo.story import Story
from longshore.dispatcher.cli.events import Changed, Connected, Disconnected, EventFeed
from longshore.dispatcher.cli.failure import INTERRUPTED, CommandFailure
from longshore.dispatcher.cli.ids import container_path, instance_path
from longshore.drivers.errors import ConfigError, LongshoreError

LOG_NAME = "server.log"
LOG_LINES_SHOWN = 30
PAUSE_S = 0.25
LOOK_INTERVAL_S = 1.0
CLEAN_UP_S = 15.0
FIRST_DAY = "2020-01-01"

INTRODUCTION = f"""\
Longshore's demo: a real server, real SSH and real processes, on a simulated cloud of at most
{QUOTA_INSTANCES} instances of three types. {len(PROMISES)} containers go in; one fails, one is \
cancelled while it runs.
"""
HOW_TO_GO_ON = """
To go on:  longshore serve &
           longshore submit --wait -- echo hello
"""


@click.command()
def demo() -> int:
    """See it work on this machine, in less than a minute, with nothing set up."""
    click.echo(INTRODUCTION)
    with tempfile.TemporaryDirectory(prefix="longshore-demo-") as directory:
        log = Path(directory) / LOG_NAME
        try:
            story, broken = play(Path(directory))
        except ConfigError as error:
            raise config_failure(error) from error
        except (LongshoreError, OSError) as error:
            raise CommandFailure(f"the demo's server cannot run: {error}") from error
        except CommandFailure as caught:
            raise with_log(caught, log) from caught
        except KeyboardInterrupt:
            raise CommandFailure(
                "interrupted; the demo's containers and instances are ended",
                exit_code=INTERRUPTED,
            ) from None
        print_tables(story)
        if broken:
            failure = CommandFailure(
                "the demo did not go as promised",
                remedy="Please report this",
                problems=[("", sentence) for sentence in broken],
            )
            raise with_log(failure, log)
    click.echo(
        f"\nAs promised: every outcome and exit code as expected, and all {len(story.instances)} "
        "instances shut down and gone."
    )
    click.echo(HOW_TO_GO_ON)
    return 0


def with_log(failure: CommandFailure, log: Path) -> CommandFailure:
    """Return `failure` with the last lines of the server's log, which is about to be deleted."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return failure
    told = [("log", output.safe(line)) for line in lines[-LOG_LINES_SHOWN:]]
    return CommandFailure(
        failure.sentence,
        remedy=failure.remedy,
        exit_code=failure.exit_code,
        problems=[*failure.problems, *told],
    )


def play(directory: Path) -> tuple[Story, list[str]]:
    """Run the whole demo with its files in `directory`; return its story and what went wrong."""
    import yaml  # noqa: PLC0415 - slow to import, and only the server needs it

    from longshore.dispatcher.config.loading import load_config  # noqa: PLC0415 - only the server needs all this
    from longshore.dispatcher.server.serving import running_server  # noqa: PLC0415 - the whole server

    path = directory / "longshore.yml"
    path.write_text(yaml.safe_dump(configuration(directory)), encoding="utf-8")
    with (
        logging_to(directory / LOG_NAME),
        running_server(load_config(str(path))) as url,
        CommandClient(url, "") as client,
        EventFeed(client) as feed,
    ):
        stage = Stage(client, feed)
        try:
            stage.play()
        finally:
            stage.clean_up()
        return stage.story, stage.story.broken_promises()


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Keep the server's log out of the picture, in a file."""
    import structlog  # noqa: PLC0415 - slow to import, and only the server needs it

    root = logging.getLogger()
    handler = logging.FileHandler(path, encoding="utf-8")
    root.addHandler(handler)
    with path.open("a", encoding="utf-8") as file:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso"),
                structlog.processors.format_exc_info,
                structlog.processors.LogfmtRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file=file),
        )
        try:
            yield
        finally:
            structlog.reset_defaults()
            root.removeHandler(handler)
            handler.close()


class Stage:
    """Submits, watches, cancels and collects; `story` holds what happened."""

    def __init__(self, client: CommandClient, feed: EventFeed) -> None:
        self._client = client
        self._feed = feed
        self._began = time.monotonic()
        self._looked = self._began
        self._cancelled: set[str] = set()
        self._screen = LiveScreen() if output.on_terminal() else LineScreen()
        self.story = Story(tell=self._screen.tell)

    def play(self) -> None:
        """Return when all is over, or the deadline has passed."""
        self._await_feed()
        with self._screen.shown(lambda: self.story):
            self._submit()
            while not self.story.over() and self._elapsed() < DEADLINE_S:
                self._take_one()
                if time.monotonic() - self._looked > LOOK_INTERVAL_S:
                    self._look()
                    self._cancel_what_has_begun()
        self._collect()

    def clean_up(self) -> None:
        """End what is left after an interruption or a failure, within `CLEAN_UP_S`."""
        if self.story.over():
            return
        deadline = time.monotonic() + CLEAN_UP_S
        for each in list(self.story.containers.values()):
            if not is_final(each):
                self._try("POST", container_path(each.id, "/cancel"), {})
        while not self._containers_ended() and time.monotonic() < deadline:
            self._take_one()
        for story in list(self.story.instances.values()):
            if story.gone_s is None:
                body = {"reason": "the demo is over"}
                self._try("POST", instance_path(story.id, "/kill"), body)

    def _containers_ended(self) -> bool:
        return all(is_final(each) for each in self.story.containers.values())

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _await_feed(self) -> None:
        while self._elapsed() < DEADLINE_S:
            match self._feed.next(PAUSE_S):
                case Connected():
                    return
                case Disconnected(failure=failure, refused=True):
                    raise failure
        raise CommandFailure("the demo's server sends no events")

    def _submit(self) -> None:
        for promise in ALONE:
            each = self._client.send("POST", "/v1/containers", promise.request())
            self.story.hear_container(each, self._elapsed())
        created = self._client.send(
            "POST", "/v1/containers", [promise.request() for promise in LIST]
        )
        for each in created["items"]:
            self.story.hear_container(each, self._elapsed())

    def _take_one(self) -> None:
        match self._feed.next(PAUSE_S):
            case Changed(kind="container", data=data):
                self.story.hear_container(data, self._elapsed())
            case Changed(kind="instance", data=data):
                self.story.hear_instance(data, self._elapsed())
            case Connected():
                # Events may have been missed: ask for what they would have told.
                self._look()

    def _cancel_what_has_begun(self) -> None:
        for each in list(self.story.containers.values()):
            promise = PROMISES[each.name]
            wanted = (
                promise.cancelled and each.state == "running" and each.id not in self._cancelled
            )
            if wanted and promise.says in self._written(each.id):
                self._cancelled.add(each.id)
                self.story.tell(self._elapsed(), f"{each.name} is at work: cancelling it")
                self._client.send("POST", container_path(each.id, "/cancel"), {})

    def _written(self, container_id: str) -> str:
        written = b"".join(Tail(self._client, container_id, "stdout").bytes_so_far())
        return written.decode(errors="replace")

    def _look(self) -> None:
        """Ask why containers wait, which changes without an event."""
        self._looked = time.monotonic()
        query = [("state", state) for state in UNFINISHED_STATES]
        for each in self._client.pages("/v1/containers", query, len(PROMISES)):
            self.story.hear_waiting(each, self._elapsed())
        for each in self._client.pages("/v1/instances", (), INSTANCES_LIMIT_MAX):
            self.story.hear_instance(each, self._elapsed())

    def _collect(self) -> None:
        """Fetch every container as the server keeps it, and what it wrote."""
        for container_id in list(self.story.containers):
            raw = self._client.get(container_path(container_id))
            self.story.hear_container(raw, self._elapsed())
            self.story.outputs[container_id] = self._written(container_id)
        # Its ledger is new: all that is in it is the demo's.
        query = [("by", "job"), ("from", FIRST_DAY)]
        answer = self._client.whole("/v1/cost", query, LIMIT_MAX)
        self.story.hear_costs(read(answer, CostAnswer))

    def _try(self, method: str, path: str, body: object) -> None:
        try:
            self._client.send(method, path, body)
        except CommandFailure as failure:
            self.story.tell(self._elapsed(), f"cleaning up: {failure.sentence}")

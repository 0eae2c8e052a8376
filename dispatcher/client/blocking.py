"""The sync client: what users import as `longshore.client.Client`.

Its methods are the functions of `calls`, carried out; what comes back with a handle, and what goes
on, is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Concatenate, Self, Unpack

from longshore.dispatcher.api.schemas.containers import ContainerAnswer, EventAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.api.schemas.tokens import NewTokenAnswer
from longshore.dispatcher.client import calls
from longshore.dispatcher.client.blocking_transport import BlockingTransport
from longshore.dispatcher.client.calls import (
    Answer,
    ContainerFields,
    Given,
    JobFields,
    ListOf,
    Page,
    PagedListing,
    TypedCall,
    named_after,
)
from longshore.dispatcher.client.dialogue import Item
from longshore.dispatcher.client.event_stream import EventGap
from longshore.dispatcher.client.exchange import RepeatPolicy
from longshore.dispatcher.client.log_cursor import LogCursor, LogStreamName
from longshore.dispatcher.client.settings import client_settings
from longshore.dispatcher.client.waiting import only_one, result_of

USUAL = RepeatPolicy()


def _asks(
    make: Callable[Given, TypedCall[Answer]],
) -> Callable[Concatenate[Client, Given], Answer]:
    """Return the method that carries out a call; it returns its answer."""

    @named_after(make)
    def method(client: Client, /, *args: Given.args, **fields: Given.kwargs) -> Answer:
        return client._transport.carry_out(client._say.run(make(*args, **fields)))

    return method


def _gathers(
    make: Callable[Given, PagedListing[Page]],
) -> Callable[Concatenate[Client, Given], Page]:
    """Return the method that asks for a listing; it returns all of it."""

    @named_after(make)
    def method(client: Client, /, *args: Given.args, **fields: Given.kwargs) -> Page:
        return client._transport.carry_out(client._say.whole(make(*args, **fields)))

    return method


def _lists(
    make: Callable[Given, PagedListing[ListOf[Item]]],
) -> Callable[Concatenate[Client, Given], Iterator[Item]]:
    """Return the method that asks for a listing; it yields its items, page by page."""

    @named_after(make)
    def method(client: Client, /, *args: Given.args, **fields: Given.kwargs) -> Iterator[Item]:
        return client._transport.told(client._say.items(make(*args, **fields)))

    return method


class Client:
    """Speaks to one server; usable from several threads, to be closed when done.

    `url` is an http, https or unix URL, `token` a token ("" for none), `ca_file` a PEM file of whom
    to trust. What is None is taken from LONGSHORE_URL, LONGSHORE_TOKEN and LONGSHORE_CA_FILE.
    Without a URL the server is this machine's: on its Unix socket where that may be opened, else at
    http://127.0.0.1:8420. Raises `InvalidSettingsError` with all that is wrong.

    Every method raises `ClientError` of the class that says what to do about it. `policy` says
    how often a request is repeated first. A create is repeated with its `idempotency_key`, a new
    one unless you give one, so that it is carried out once.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        ca_file: str | None = None,
        policy: RepeatPolicy = USUAL,
    ) -> None:
        self._transport = BlockingTransport(client_settings(url, token, ca_file), policy)
        self._say = self._transport.dialogue

    @property
    def url(self) -> str:
        """Return which server this is of."""
        return self._transport.url

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- containers ------------------------------------------------------------------------

    def submit(
        self,
        command: Sequence[str] = (),
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[ContainerFields],
    ) -> ContainerHandle:
        """Submit one container; without a command it is that of its image."""
        call = calls.submit(command, fields, self._say.key(idempotency_key))
        return ContainerHandle(self, self._run(call))

    def submit_many(
        self, containers: Sequence[Mapping[str, object]], *, idempotency_key: str | None = None
    ) -> list[ContainerHandle]:
        """Submit several containers, all of them or none."""
        call = calls.submit_many(containers, self._say.key(idempotency_key))
        return [ContainerHandle(self, each) for each in (self._run(call)).items]

    container = _asks(calls.container)
    containers = _lists(calls.containers)
    set_container_priority = _asks(calls.set_container_priority)
    cancel_container = _asks(calls.cancel_container)
    explain = _asks(calls.explain)

    def logs(
        self,
        container_id: str,
        *,
        stream: LogStreamName = "stdout",
        offset: int = 0,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Yield what the last attempt of a container wrote, from `offset` on, in bytes.

        With `follow` to its end, over every further attempt, each from its beginning. A broken
        connection is taken up where it broke: nothing is left out. Some may come twice if another
        attempt began meanwhile.
        """
        cursor = LogCursor(stream=stream, offset=offset)
        return self._transport.told(self._say.log(container_id, cursor, follow=follow))

    # ---- jobs ------------------------------------------------------------------------------

    def submit_job(
        self,
        tasks: Sequence[Mapping[str, object]],
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> JobHandle:
        """Submit a job of these tasks."""
        call = calls.submit_job(tasks, fields, self._say.key(idempotency_key))
        return JobHandle(self, self._run(call))

    def dispatch_job(
        self,
        job_id: str,
        parameters: Mapping[str, str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> JobHandle:
        """Run a parameterized job with these parameters."""
        call = calls.dispatch_job(job_id, parameters, self._say.key(idempotency_key))
        return JobHandle(self, self._run(call))

    job = _asks(calls.job)
    jobs = _lists(calls.jobs)
    plan_job = _asks(calls.plan_job)
    change_job = _asks(calls.change_job)
    update_job = _asks(calls.update_job)
    cancel_job = _asks(calls.cancel_job)

    # ---- instances, for admins -------------------------------------------------------------

    instances = _gathers(calls.instances)
    instance = _asks(calls.instance)
    set_idle_behavior = _asks(calls.set_idle_behavior)
    kill_instance = _asks(calls.kill_instance)
    strays = _gathers(calls.strays)
    decide_strays = _asks(calls.decide_strays)
    leaks = _gathers(calls.leaks)

    # ---- who is let in, for admins ---------------------------------------------------------

    def create_token(
        self,
        user: str,
        role: str = "user",
        *,
        projects: Sequence[str] = (),
        default_project: str | None = None,
        name: str | None = None,
        expires_at: str | None = None,
        idempotency_key: str | None = None,
    ) -> NewTokenAnswer:
        """Make a token; its text, `token`, is told this once.

        `expires_at` is a time in RFC 3339, None for one that is good until it is revoked. Raises
        `ConflictError` with its id when it was made and the answer with its text was lost: revoke
        that one, and make another.
        """
        call = calls.create_token(
            user,
            role,
            projects=projects,
            default_project=default_project,
            name=name,
            expires_at=expires_at,
            key=self._say.key(idempotency_key),
        )
        return self._run(call)

    tokens = _lists(calls.tokens)
    token = _asks(calls.token)
    revoke_token = _asks(calls.revoke_token)
    secrets = _lists(calls.secrets)
    set_secret = _asks(calls.set_secret)
    remove_secret = _asks(calls.remove_secret)
    rotate_secret_keys = _asks(calls.rotate_secret_keys)
    cost = _lists(calls.cost)
    budgets = _asks(calls.budgets)

    def export_cost(
        self, month: str = "", *, form: str = "csv", tz: str = "", labels: Sequence[str] = ()
    ) -> Iterator[bytes]:
        """Yield the lines of a month as a file, in bytes; "" is this month, and UTC.

        `month` is written as 2026-10, `form` is `csv`, or of admins `focus-1.4` or `focus-1.2`.
        `tz` is the zone of the month and `labels` the keys that have a column each, of CSV alone.
        Raises `LostAnswerError` where the file is cut off: what came is no whole file then.
        """
        call = calls.export_cost(month=month, form=form, tz=tz, labels=labels)
        return self._transport.told(self._say.file(call))

    cost_forecast = _asks(calls.cost_forecast)
    ended_runs = _asks(calls.ended_runs)
    prices = _asks(calls.prices)
    reconcile_cost = _asks(calls.reconcile_cost)
    audit = _lists(calls.audit)
    whoami = _asks(calls.whoami)

    # ---- what work takes -------------------------------------------------------------------

    efficiency = _asks(calls.efficiency)

    # ---- what goes on ----------------------------------------------------------------------

    overview = _asks(calls.overview)
    holds = _asks(calls.holds)
    decisions = _lists(calls.decisions)
    timeline = _lists(calls.timeline)

    # ---- the server ------------------------------------------------------------------------

    def events(self, *, last_event_id: str = "") -> Iterator[EventAnswer | EventGap]:
        """Yield what happens from now on, or since an event, for as long as it is asked for.

        A broken connection is taken up where it broke. Where the server, or this client, knows that
        events are missing, an `EventGap` stands in their place: ask again for what you need.
        """
        return self._transport.told(self._say.events(last_event_id))

    live = _asks(calls.live)
    ready = _asks(calls.ready)
    health = _asks(calls.health)

    def metrics(self) -> str:
        """Return the Prometheus text exposition."""
        body = self._transport.carry_out(self._say.body(calls.metrics()))
        return body.decode()

    def _run(self, call: TypedCall[Answer]) -> Answer:
        return self._transport.carry_out(self._say.run(call))


class ContainerHandle:
    """One container that was submitted, to be waited for, read from and cancelled."""

    def __init__(self, client: Client, answer: ContainerAnswer) -> None:
        self._client = client
        #: As it was when it was last asked for.
        self.answer = answer

    @property
    def id(self) -> str:
        """Return its id."""
        return self.answer.id

    def refresh(self) -> ContainerAnswer:
        """Return it as it is now."""
        self.answer = self._client.container(self.id)
        return self.answer

    def wait(self, timeout_s: float | None = None) -> ContainerAnswer:
        """Return it once it has ended, however it has (its `state` and `exit_code` say).

        Raises `TimeoutError` after `timeout_s` (None for no limit); the container goes on then.
        """
        looks = self._client._say.looks(calls.container(self.id), self.answer, timeout_s)
        for each in self._client._transport.told(looks):
            self.answer = each
        return self.answer

    def result(self, timeout_s: float | None = None) -> ContainerAnswer:
        """Return it once it has succeeded.

        As the result of a future: raises `RunFailedError` (with `exit_code` and `answer`) when it
        failed, `RunCancelledError` when it was cancelled, and `TimeoutError` after `timeout_s`
        (None for no limit); the container goes on then.
        """
        return result_of(self.wait(timeout_s))

    def logs(
        self, *, stream: LogStreamName = "stdout", offset: int = 0, follow: bool = False
    ) -> Iterator[bytes]:
        """Yield what it wrote, with `follow` to its end, as `Client.logs` does."""
        return self._client.logs(self.id, stream=stream, offset=offset, follow=follow)

    def cancel(self) -> None:
        """Ask for it to be cancelled; `wait` tells when it has ended."""
        self.answer = self._client.cancel_container(self.id)


class JobHandle:
    """One job that was submitted, to be waited for, read from and cancelled."""

    def __init__(self, client: Client, answer: JobAnswer) -> None:
        self._client = client
        #: As it was when it was last asked for.
        self.answer = answer

    @property
    def id(self) -> str:
        """Return its id."""
        return self.answer.id

    def refresh(self) -> JobAnswer:
        """Return it as it is now."""
        self.answer = self._client.job(self.id)
        return self.answer

    def wait(self, timeout_s: float | None = None) -> JobAnswer:
        """Return it once all of it has ended, however it has.

        Raises `TimeoutError` after `timeout_s` (None for no limit); the job goes on then.
        """
        looks = self._client._say.looks(calls.job(self.id), self.answer, timeout_s)
        for each in self._client._transport.told(looks):
            self.answer = each
        return self.answer

    def result(self, timeout_s: float | None = None) -> JobAnswer:
        """Return it once it has succeeded; raises as `ContainerHandle.result` does."""
        return result_of(self.wait(timeout_s))

    def containers(
        self, *, task: str | None = None, array_index: int | None = None
    ) -> Iterator[ContainerHandle]:
        """Yield its containers, the newest first; None is no filter."""
        for each in self._client.containers(job=self.id, task=task, array_index=array_index):
            yield ContainerHandle(self._client, each)

    def logs(
        self, *, stream: LogStreamName = "stdout", offset: int = 0, follow: bool = False
    ) -> Iterator[bytes]:
        """Yield what the container of a job wrote that has just one.

        Raises `SeveralContainersError` for another: choose one of `containers` then.
        """
        only = only_one(self.id, list(islice(self.containers(), 2)))
        return only.logs(stream=stream, offset=offset, follow=follow)

    def cancel(self) -> None:
        """Ask for all of it to be cancelled; `wait` tells when it has ended."""
        self.answer = self._client.cancel_job(self.id)

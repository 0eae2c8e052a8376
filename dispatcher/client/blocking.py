"""The sync client: what users import as `longshore.client.Client`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Self, Unpack

from longshore.dispatcher.api.schemas.containers import (
    ContainerAnswer,
    ContainerList,
    EventAnswer,
    RotationAnswer,
    SecretAnswer,
    SecretList,
)
from longshore.dispatcher.api.schemas.explain import ExplanationAnswer
from longshore.dispatcher.api.schemas.health import HealthAnswer, LiveAnswer, ReadyAnswer
from longshore.dispatcher.api.schemas.instances import (
    InstanceAnswer,
    InstanceList,
    LeakList,
    StrayList,
)
from longshore.dispatcher.api.schemas.jobs import JobAnswer, JobList, PlanAnswer
from longshore.dispatcher.api.schemas.tokens import (
    AuditEntryAnswer,
    AuditList,
    CallerAnswer,
    NewTokenAnswer,
    TokenAnswer,
    TokenList,
)
from longshore.dispatcher.client import calls, event_stream, log_cursor
from longshore.dispatcher.client.blocking_transport import BlockingTransport
from longshore.dispatcher.client.calls import ContainerFields, Filter, JobFields, Page, PagedListing
from longshore.dispatcher.client.errors import ClientError
from longshore.dispatcher.client.event_stream import EventCursor, EventGap, FrameParser
from longshore.dispatcher.client.exchange import RepeatPolicy, lost
from longshore.dispatcher.client.log_cursor import LogCursor, LogStreamName
from longshore.dispatcher.client.settings import client_settings
from longshore.dispatcher.client.waiting import (
    Reconnection,
    Run,
    has_ended,
    look_after_s,
    only_one,
    result_of,
)

USUAL = RepeatPolicy()


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
        call = calls.submit(command, fields, _key(idempotency_key))
        return ContainerHandle(self, self._transport.run(call))

    def submit_many(
        self, containers: Sequence[Mapping[str, object]], *, idempotency_key: str | None = None
    ) -> list[ContainerHandle]:
        """Submit several containers, all of them or none."""
        answer = self._transport.run(calls.submit_many(containers, _key(idempotency_key)))
        return [ContainerHandle(self, each) for each in answer.items]

    def container(self, container_id: str, *, tree: bool = False) -> ContainerAnswer:
        """Return one container as it is now.

        With `tree` it has `cost_of_tree_usd`, if it submitted any from inside; that takes the
        longer, the more these are.
        """
        return self._transport.run(calls.container(container_id, tree=tree))

    def containers(
        self,
        *,
        state: Filter = None,
        user: Filter = None,
        project: Filter = None,
        name: Filter = None,
        instance: Filter = None,
        job: str | None = None,
        task: str | None = None,
        array_index: int | None = None,
    ) -> Iterator[ContainerAnswer]:
        """Yield containers, the newest first, page by page; None is no filter."""
        wanted = calls.listing(
            "containers",
            ContainerList,
            state=state,
            user=user,
            project=project,
            name=name,
            instance=instance,
            job=job,
            task=task,
            array_index=array_index,
        )
        for page in self._pages(wanted):
            yield from page.items

    def set_container_priority(self, container_id: str, priority: int) -> ContainerAnswer:
        """Change a container's priority: 1000 goes first, 0 is held back."""
        return self._transport.run(calls.set_container_priority(container_id, priority))

    def cancel_container(self, container_id: str) -> ContainerAnswer:
        """Ask for a container to be cancelled; it may take a while until it has ended."""
        return self._transport.run(calls.cancel_container(container_id))

    def explain(self, container_id: str) -> ExplanationAnswer:
        """Return why a container is where it is."""
        return self._transport.run(calls.explain(container_id))

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
        going_on = Reconnection()
        while True:
            try:
                cursor = cursor.seen(self.container(container_id))
                going_on.reached(self._transport.now_s())
                call = calls.logs(container_id, cursor, follow=follow)
                with closing(
                    self._transport.stream(call, silence_s=log_cursor.SILENCE_LIMIT_S)
                ) as answer:
                    if cursor.offset and not cursor.is_of(self.container(container_id)):
                        continue
                    for chunk in self._transport.chunks(answer):
                        cursor = cursor.received(len(chunk))
                        yield chunk
            except ClientError as error:
                self._transport.pause(self._pause_s(going_on, error))
            else:
                # The server ends a stream properly only when nothing can follow.
                return

    # ---- jobs ------------------------------------------------------------------------------

    def submit_job(
        self,
        tasks: Sequence[Mapping[str, object]],
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> JobHandle:
        """Submit a job of these tasks."""
        call = calls.submit_job(calls.job_body(tasks, fields), _key(idempotency_key))
        return JobHandle(self, self._transport.run(call))

    def job(self, job_id: str) -> JobAnswer:
        """Return one job, with its tasks, as it is now."""
        return self._transport.run(calls.job(job_id))

    def jobs(
        self,
        *,
        state: Filter = None,
        user: Filter = None,
        project: Filter = None,
        name: Filter = None,
        parent: str | None = None,
    ) -> Iterator[JobAnswer]:
        """Yield jobs without their tasks, the newest first, page by page; None is no filter."""
        wanted = calls.listing(
            "jobs", JobList, state=state, user=user, project=project, name=name, parent=parent
        )
        for page in self._pages(wanted):
            yield from page.items

    def plan_job(
        self,
        tasks: Sequence[Mapping[str, object]],
        *,
        job_id: str | None = None,
        **fields: Unpack[JobFields],
    ) -> PlanAnswer:
        """Return what a job would come to, or an update of the job `job_id`; nothing is done."""
        return self._transport.run(calls.plan_job(calls.job_body(tasks, fields), job_id))

    def change_job(
        self, job_id: str, *, priority: int | None = None, held: bool | None = None
    ) -> JobAnswer:
        """Change a job's priority, hold it or release it; None leaves it as it is."""
        return self._transport.run(calls.change_job(job_id, priority, held))

    def update_job(
        self, job_id: str, tasks: Sequence[Mapping[str, object]], **fields: Unpack[JobFields]
    ) -> JobAnswer:
        """Make a system or sysbatch job what is said here: its next revision."""
        return self._transport.run(calls.update_job(job_id, calls.job_body(tasks, fields)))

    def dispatch_job(
        self,
        job_id: str,
        parameters: Mapping[str, str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> JobHandle:
        """Run a parameterized job with these parameters."""
        call = calls.dispatch_job(job_id, parameters or {}, _key(idempotency_key))
        return JobHandle(self, self._transport.run(call))

    def cancel_job(self, job_id: str) -> JobAnswer:
        """Ask for all of a job to be cancelled; it may take a while until it has ended."""
        return self._transport.run(calls.cancel_job(job_id))

    # ---- instances, for admins -------------------------------------------------------------

    def instances(self, *, gone: bool = False) -> InstanceList:
        """Return all instances, or those that are gone."""
        return self._whole(calls.listing("instances", InstanceList, gone=gone))

    def instance(self, instance_id: str) -> InstanceAnswer:
        """Return one instance, gone or not."""
        return self._transport.run(calls.instance(instance_id))

    def set_idle_behavior(
        self,
        instance_id: str,
        idle_behavior: str,
        *,
        reason: str | None = None,
        until: str | None = None,
    ) -> InstanceAnswer:
        """Let an instance `run`, `hold` it (until a time in RFC 3339) or `drain` it."""
        call = calls.set_idle_behavior(instance_id, idle_behavior, reason, until)
        return self._transport.run(call)

    def kill_instance(self, instance_id: str, *, reason: str | None = None) -> InstanceAnswer:
        """Destroy an instance now, whatever runs on it."""
        return self._transport.run(calls.kill_instance(instance_id, reason))

    def strays(self) -> StrayList:
        """Return what another store has started, and is kept."""
        return self._whole(calls.listing("strays", StrayList))

    def decide_strays(self, instance_id: str, fate: str, attempts: Sequence[str] = ()) -> StrayList:
        """`kill` or `adopt` what is kept on an instance: these attempts, none for all of them."""
        return self._transport.run(calls.decide_strays(instance_id, fate, attempts))

    def leaks(self) -> LeakList:
        """Return what is billed and not wanted."""
        return self._whole(calls.listing("leaks", LeakList))

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
    ) -> NewTokenAnswer:
        """Make a token; its text, `token`, is told this once.

        `expires_at` is a time in RFC 3339, None for one that is good until it is revoked. It is not
        sent again when its answer is lost: look into `tokens` then.
        """
        call = calls.create_token(
            user,
            role,
            projects=projects,
            default_project=default_project,
            name=name,
            expires_at=expires_at,
        )
        return self._transport.run(call)

    def tokens(self, *, user: str | None = None, state: str | None = None) -> Iterator[TokenAnswer]:
        """Yield tokens without their texts, by id, page by page; None is no filter."""
        for page in self._pages(calls.listing("tokens", TokenList, user=user, state=state)):
            yield from page.items

    def token(self, token_id: str) -> TokenAnswer:
        """Return one token, without its text."""
        return self._transport.run(calls.token(token_id))

    def revoke_token(self, token_id: str) -> TokenAnswer:
        """Let nobody in with a token any more."""
        return self._transport.run(calls.revoke_token(token_id))

    def secrets(self, project: str) -> Iterator[SecretAnswer]:
        """Yield the secrets of a project without their values, by name, page by page."""
        for page in self._pages(calls.listing("secrets", SecretList, of=(project,))):
            yield from page.items

    def set_secret(self, project: str, name: str, value: str) -> SecretAnswer:
        """Set a secret; attempts that start from now on get it."""
        return self._transport.run(calls.set_secret(project, name, value))

    def remove_secret(self, project: str, name: str) -> SecretAnswer:
        """Remove a secret; what refers to it waits until it is set again."""
        return self._transport.run(calls.remove_secret(project, name))

    def rotate_secret_keys(self) -> RotationAnswer:
        """Encrypt all secrets anew, with a new key, and have the old ones forgotten."""
        return self._transport.run(calls.rotate_secret_keys())

    def audit(
        self,
        *,
        user: str | None = None,
        token: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[AuditEntryAnswer]:
        """Yield who was to change what, the newest first, page by page; None is no filter.

        `token` is the id of one, `since` and `until` are times in RFC 3339.
        """
        wanted = calls.listing("audit", AuditList, user=user, token=token, since=since, until=until)
        for page in self._pages(wanted):
            yield from page.items

    def whoami(self) -> CallerAnswer:
        """Return who one is to the server, and what one sees."""
        return self._transport.run(calls.whoami())

    # ---- the server ------------------------------------------------------------------------

    def events(self, *, last_event_id: str = "") -> Iterator[EventAnswer | EventGap]:
        """Yield what happens from now on, or since an event, for as long as it is asked for.

        A broken connection is taken up where it broke. Where the server, or this client, knows that
        events are missing, an `EventGap` stands in their place: ask again for what you need.
        """
        cursor = EventCursor(last_id=last_event_id)
        going_on = Reconnection()
        while True:
            try:
                with closing(
                    self._transport.stream(
                        calls.events(cursor.last_id), silence_s=event_stream.SILENCE_LIMIT_S
                    )
                ) as answer:
                    going_on.reached(self._transport.now_s())
                    if gap := cursor.connected():
                        yield gap
                    frames = FrameParser()
                    for chunk in self._transport.chunks(answer):
                        for frame in frames.feed(chunk):
                            if (told := cursor.take(frame)) is not None:
                                yield told
                # A server that stops ends its streams; it may be there again soon.
                raise lost(self.url, late=False)
            except ClientError as error:
                self._transport.pause(self._pause_s(going_on, error))

    def live(self) -> LiveAnswer:
        """Return that the server's process answers."""
        return self._transport.run(calls.live())

    def ready(self) -> ReadyAnswer:
        """Return whether requests can be served, and what is wrong."""
        return self._transport.run(calls.ready())

    def health(self) -> HealthAnswer:
        """Return how the server is doing."""
        return self._transport.run(calls.health())

    def metrics(self) -> str:
        """Return the Prometheus text exposition."""
        return self._transport.body(calls.metrics()).decode()

    # ---- what several of these need --------------------------------------------------------

    def _pages(self, wanted: PagedListing[Page]) -> Iterator[Page]:
        cursor: str | None = None
        while True:
            page = self._transport.run(wanted.page(cursor))
            yield page
            cursor = page.next_cursor
            if cursor is None or not page.items:
                return

    def _whole(self, wanted: PagedListing[Page]) -> Page:
        return calls.joined(list(self._pages(wanted)))

    def _ended(self, look: Callable[[], Run], known: Run, timeout_s: float | None) -> Run:
        """Look until what is `known` has ended; raises `TimeoutError` after `timeout_s`."""
        began_s = self._transport.now_s()
        going_on = Reconnection()
        going_on.reached(began_s)
        looks = 0
        while not has_ended(known):
            looks += 1
            pause_s = look_after_s(looks)
            if timeout_s is not None:
                left_s = began_s + timeout_s - self._transport.now_s()
                if left_s <= 0:
                    raise TimeoutError(f"{known.id} has not ended within {timeout_s:g} s")
                pause_s = min(pause_s, left_s)
            self._transport.pause(pause_s)
            try:
                known = look()
                going_on.reached(self._transport.now_s())
            except ClientError as error:
                self._transport.pause(self._pause_s(going_on, error))
        return known

    def _pause_s(self, going_on: Reconnection, error: ClientError) -> float:
        return going_on.pause_s(error, self._transport.now_s(), self._transport.dice())


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
        return self._client._ended(self.refresh, self.answer, timeout_s)

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
        return self._client._ended(self.refresh, self.answer, timeout_s)

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


def _key(given: str | None) -> str:
    return uuid.uuid4().hex if given is None else given

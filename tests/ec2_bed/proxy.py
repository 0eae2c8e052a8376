"""What the driver talks to: passes calls on to moto, and brings the trouble that is ordered."""

from __future__ import annotations

import base64
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode
from xml.etree.ElementTree import Element

import urllib3

from tests.ec2_bed import answers, metadata
from tests.ec2_bed.faults import IN_LISTINGS, Fault, FaultPlan, Kind
from tests.ec2_bed.listings import CUT_TOKEN, Listings
from tests.ec2_bed.machines import Machines
from tests.ec2_bed.metadata import Metadata
from tests.ec2_bed.promises import ClientTokens, TokenMismatch

OFFERED: Final = ("c5", "g4dn", "i3", "m5", "m5d", "m6g", "mac1", "t3")
"""The families that the account is offered: all of moto's would take each test half a minute."""

_PAGED: Final = {
    "DescribeInstanceTypes": 10,
    "DescribeInstanceTypeOfferings": 40,
    "DescribeSpotPriceHistory": 40,
}
_PASSED_ON = ("authorization", "content-type", "user-agent", "x-amz-date", "x-amz-security-token")
_NOT_COMPARED = frozenset({"Action", "Version"})


class NoAnswer(Exception):  # noqa: N818 - it is what the client gets
    """The connection ends here, without an answer."""


class Proxy:
    """The endpoint, as an HTTP server on a free port; threads answer until `close`.

    Listings have `page_size` reservations a page, however many the client asks for.
    """

    def __init__(
        self,
        moto_url: str,
        *,
        plan: FaultPlan,
        machines: Machines,
        described: Metadata,
        page_size: int = 3,
    ) -> None:
        self.plan = plan
        self.tokens = ClientTokens()
        self.calls: Counter[str] = Counter()
        self.launches: list[dict[str, str]] = []
        self.page_size = page_size
        self._moto_url = moto_url
        self._machines = machines
        self._metadata = described
        self._listings = Listings(machines)
        self._keys: dict[str, str] = {}
        self._pages: dict[str, Element] = {}
        self._whole: dict[tuple[tuple[str, str], ...], Element] = {}
        self._lock = threading.Lock()
        self._release = threading.Event()
        self._http = urllib3.PoolManager(maxsize=8, retries=False)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop answering, and wait for what is being answered."""
        self._release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._http.clear()

    def forget(self) -> None:
        """Forget what calls there were, and let go of those that wait for a late answer."""
        self._release.set()
        self._release = threading.Event()
        self.plan.clear()
        self.tokens.clear()
        self._listings.clear()
        with self._lock:
            self.calls.clear()
            self._pages.clear()
            self.launches.clear()

    # ---- one call ----------------------------------------------------------------------------

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer to a call; raises `NoAnswer`."""
        query = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = query.get("Action", "")
        with self._lock:
            self.calls[action] += 1
            if action == "RunInstances":
                self.launches.append(query)
        fault = self.plan.take(action, query, lambda each: each.kind not in IN_LISTINGS)
        if fault is not None and fault.kind is Kind.ERROR:
            return _refusal(fault)
        if fault is not None and fault.kind is Kind.LOST_REQUEST:
            raise NoAnswer
        status, content = self._done(action, headers, query)
        if fault is None:
            return status, content
        if fault.kind is Kind.ERROR_AFTER:
            return _refusal(fault)
        if fault.kind is Kind.LATE_ANSWER:
            self._release.wait(fault.delay_s)
        raise NoAnswer

    def _done(
        self, action: str, headers: dict[str, str], query: dict[str, str]
    ) -> tuple[int, bytes]:
        match action:
            case "RunInstances":
                return self._run(headers, query)
            case "DescribeInstances":
                return self._listed(headers, query)
            case "TerminateInstances":
                return self._terminated(headers, query)
            case "ImportKeyPair":
                return self._imported(headers, query)
            case _ if action in _PAGED:
                return self._paged(action, headers, query)
            case _:
                return self._moto(headers, _as_moto_reads(action, query))

    def _run(self, headers: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
        if "ClientToken" not in query:
            return 400, answers.error("MissingParameter", "the bed wants a ClientToken")
        compared = {key: value for key, value in query.items() if key not in _NOT_COMPARED}
        try:
            with self.tokens.launching(compared) as (earlier, made):
                if earlier:
                    return self._told_again(headers, earlier)
                return self._launched(headers, query, made)
        except TokenMismatch:
            message = "Arguments on this idempotent request are inconsistent with arguments used"
            return 400, answers.error("IdempotentParameterMismatch", message)

    def _launched(
        self, headers: dict[str, str], query: dict[str, str], made: Any
    ) -> tuple[int, bytes]:
        sent = {key: value for key, value in query.items() if key != "UserData"}
        status, content = self._moto(headers, {**sent, **self._mapped(headers, sent)})
        if status != 200:
            return status, content
        answer = answers.parsed(content)
        ((_, instance),) = answers.instances(answer)
        instance_id = answers.text(instance, "instanceId")
        made(instance_id)
        machine = self._machines.launch(
            instance_id, metadata_url=f"{self.url}/metadata/{instance_id}"
        )
        self._listings.launched(instance)
        machine.boot(query.get("UserData", ""), self._keys.get(query.get("KeyName", ""), ""))
        return status, answers.written(self._listings.moved(answer))

    def _mapped(self, headers: dict[str, str], query: dict[str, str]) -> dict[str, str]:
        """Return what EC2 adds to a request's block devices, and moto does not: the image's own.

        moto takes a size for what the request does not say of one, and ends a volume of which
        nothing is asked with its instance.
        """
        described = {"Action": "DescribeImages", "Version": query["Version"]}
        status, content = self._moto(headers, {**described, "ImageId.1": query["ImageId"]})
        devices = answers.block_devices(answers.parsed(content)) if status == 200 else {}
        asked = {
            value: key.rpartition(".")[0]
            for key, value in query.items()
            if key.startswith("BlockDeviceMapping.") and key.endswith(".DeviceName")
        }
        added: dict[str, str] = {}
        for number, (device, own) in enumerate(sorted(devices.items()), len(asked) + 1):
            place = asked.get(device, f"BlockDeviceMapping.{number}")
            added[f"{place}.DeviceName"] = device
            for name, value in sorted(own.items()):
                added[f"{place}.Ebs.{name}"] = query.get(f"{place}.Ebs.{name}", value)
        return added

    def _told_again(self, headers: dict[str, str], instance_id: str) -> tuple[int, bytes]:
        query = {"Action": "DescribeInstances", "Version": "2016-11-15"}
        status, content = self._moto(headers, {**query, "InstanceId.1": instance_id})
        if status != 200:
            return status, content
        answer = answers.launch_of(answers.parsed(content))
        return status, answers.written(self._listings.moved(answer))

    def _listed(self, headers: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
        """Answer with a page; all pages of a listing tell of one moment, as moto's do not."""
        token = query.get("NextToken", "")
        if token == CUT_TOKEN:
            return 500, answers.error("InternalError", "An internal error has occurred")
        name = token.rpartition("-")[0]
        if not token:
            # Not both may be said: whose, and how many.
            size = {} if "InstanceId.1" in query else {"MaxResults": "1000"}
            status, content = self._moto(headers, {**query, **size})
            if status != 200:
                return status, content
            listing = self._told(self._listings.moved(answers.parsed(content)), query)
            with self._lock:
                name = f"listing-{self.calls['DescribeInstances']}-{len(self._pages)}"
                self._pages[name] = listing
        with self._lock:
            whole = self._pages[name]
        cut = answers.page(whole, self.page_size, token, name=name)
        if answers.text(whole, "nextToken") and not answers.text(cut, "nextToken"):
            answers.set_text(cut, "nextToken", CUT_TOKEN)
        return 200, answers.written(cut)

    def _told(self, listing: Element, query: dict[str, str]) -> Element:
        """Return what a listing says, which is not always so."""
        fault = self.plan.take(
            "DescribeInstances",
            query,
            lambda each: (
                each.kind in IN_LISTINGS and self._listings.possible(each.kind, listing, query)
            ),
        )
        if fault is not None:
            self._listings.falsify(fault.kind, listing, query)
        self._listings.seen(listing)
        return listing

    def _terminated(self, headers: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
        status, content = self._moto(headers, query)
        if status == 200:
            for name, value in sorted(query.items()):
                if name.startswith("InstanceId."):
                    self._machines.end(value)
        return status, content

    def _imported(self, headers: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
        status, content = self._moto(headers, query)
        if status == 200:
            material = base64.b64decode(query["PublicKeyMaterial"]).decode()
            self._keys[query["KeyName"]] = material.strip()
        return status, content

    def _paged(
        self, action: str, headers: dict[str, str], query: dict[str, str]
    ) -> tuple[int, bytes]:
        whole = {
            key: value for key, value in query.items() if key not in ("MaxResults", "NextToken")
        }
        described = (("region", _region(headers)), *sorted(whole.items()))
        with self._lock:
            known = self._whole.get(described)
        if known is None:
            status, content = self._moto(headers, whole)
            if status != 200:
                return status, content
            known = answers.of_families(answers.parsed(content), OFFERED)
            with self._lock:
                self._whole[described] = known
        cut = answers.page(known, _PAGED[action], query.get("NextToken", ""))
        return 200, answers.written(cut)

    def _moto(self, headers: dict[str, str], query: dict[str, str]) -> tuple[int, bytes]:
        passed = {key: value for key, value in headers.items() if key.lower() in _PASSED_ON}
        response = self._http.request(
            "POST", self._moto_url, body=urlencode(query), headers=passed, timeout=60.0
        )
        return response.status, response.data

    # ---- the server --------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            """Answers one request and closes the connection, so that no thread outlives it."""

            def do_POST(self) -> None:
                """Answer a call."""
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                try:
                    status, content = proxy.answer(dict(self.headers.items()), body)
                except NoAnswer:
                    self.close_connection = True
                    return
                self._write(status, content)

            def do_GET(self) -> None:
                """Answer what an instance asks its metadata service."""
                self._write(*metadata.answer(proxy._metadata, self))

            def do_PUT(self) -> None:
                """Answer an instance that asks for a token."""
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Say nothing: what was called is counted."""

            def _write(self, status: int, content: bytes) -> None:
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "text/xml;charset=UTF-8")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except (BrokenPipeError, ConnectionResetError):
                    # A client that was killed waits for nothing.
                    self.close_connection = True

        return Handler


def _region(headers: dict[str, str]) -> str:
    """Return the region that a call is signed for."""
    signed = {key.lower(): value for key, value in headers.items()}.get("authorization", "")
    return "".join(signed.partition("Credential=")[2].split("/")[2:3])


def _as_moto_reads(action: str, query: dict[str, str]) -> dict[str, str]:
    """Return a query without filters that moto does not read as EC2 does: it tells more then."""
    if action not in ("DescribeNetworkInterfaces", "DescribeVolumes"):
        return query
    return {key: value for key, value in query.items() if not key.startswith("Filter.")}


def _refusal(fault: Fault) -> tuple[int, bytes]:
    return fault.status, answers.error(fault.code, f"{fault.code}, as the test bed was told")

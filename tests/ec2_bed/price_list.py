"""AWS's public price list, served over HTTP: a small one, or a body that is none."""

from __future__ import annotations

import csv
import gzip
import io
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Self

PREAMBLE = (
    ("FormatVersion", "v1.0"),
    ("Disclaimer", 'This "list" is for information, only'),
    ("Publication Date", "2026-01-16T16:02:58Z"),
    ("Version", "20260116160258"),
    ("OfferCode", "AmazonEC2"),
)
ROW = {
    "SKU": "2223B6PCG6QAUYY6",
    "OfferTermCode": "JRTCKXETXF",
    "TermType": "OnDemand",
    "PriceDescription": "$0.096 per On Demand Linux m5.large, an hour",
    "Unit": "Hrs",
    "PricePerUnit": "0.0960000000",
    "Currency": "USD",
    "Product Family": "Compute Instance",
    "Instance Type": "m5.large",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "License Model": "No License required",
    "operation": "RunInstances",
    "CapacityStatus": "Used",
    "MarketOption": "OnDemand",
    "Pre Installed S/W": "NA",
    "Region Code": "us-east-1",
}
# What a real list has of each type beside the price that counts.
OTHERS = (
    {"Operating System": "Windows", "operation": "RunInstances:0002"},
    {"Tenancy": "Dedicated"},
    {"CapacityStatus": "UnusedCapacityReservation"},
    {"Pre Installed S/W": "SQL Std", "operation": "RunInstances:0004"},
    {"TermType": "Reserved"},
    {"TermType": "Reserved", "Unit": "Quantity"},
    {"MarketOption": "CapacityBlock", "PricePerUnit": "0.0000000000"},
)


def price_list(prices: Mapping[str, str], **changes: str) -> str:
    """Return a list with these prices in USD by type, among others; `changes` are of all rows."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(PREAMBLE)
    writer.writerow(ROW)
    for name, price in prices.items():
        counts = {**ROW, "Instance Type": name, "PricePerUnit": price, **changes}
        for other in OTHERS:
            writer.writerow({**counts, "PricePerUnit": "99", **other}.values())
        writer.writerow(counts.values())
    return text.getvalue()


class PriceListServer:
    """A server of one price list, compressed if the client takes that; for a `with`.

    `body` is served in place of a list made of `prices`, `headers` beside its own; `asked` are the
    paths of the requests.
    """

    def __init__(
        self,
        prices: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.asked: list[str] = []
        content = price_list(prices or {}).encode() if body is None else body
        packed = gzip.compress(content)
        asked, more = self.asked, headers or {}

        class Handler(BaseHTTPRequestHandler):
            """Answers each request with the list, whatever its path."""

            def do_GET(self) -> None:
                """Answer."""
                asked.append(self.path)
                takes_gzip = "gzip" in self.headers.get("Accept-Encoding", "")
                self.send_response(status)
                if takes_gzip:
                    self.send_header("Content-Encoding", "gzip")
                for name, value in more.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(packed if takes_gzip else content)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Return the address of the list of any region."""
        return f"http://127.0.0.1:{self._server.server_port}/offers/{{region}}/index.csv"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

"""What EC2's instances cost: on demand by AWS's public price list, spot by the price history."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from typing import Any, Final

import urllib3
from botocore.httpsession import ProxyConfiguration
from botocore.utils import get_environ_proxies

from longshore.drivers.ec2.faults import FAILURES, judged
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, ZonePrice

PRICE_LIST_URL: Final = (
    "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
)
PRICE_LIST_LIMIT_BYTES: Final = 2 * 1024**3
PRICE_LIST_AGE_S: Final = 86_400.0
TYPES_PER_CALL: Final = 100

_LINE_LIMIT_BYTES: Final = 256 * 1024
_PREAMBLE_LINES: Final = 20
_CHUNK_BYTES: Final = 256 * 1024
_CONNECT_TIMEOUT_S: Final = 10.0
_READ_TIMEOUT_S: Final = 60.0
_LEAST_USD: Final = Decimal("0.000001")
_MOST_USD: Final = Decimal(100_000)
_SPOT_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_WHAT_COUNTS: Final = {
    "TermType": ("OnDemand",),
    "Unit": ("Hrs", "Hours"),
    "Currency": ("USD",),
    "Tenancy": ("Shared",),
    "Operating System": ("Linux",),
    "Pre Installed S/W": ("NA", ""),
    "CapacityStatus": ("Used",),
}
# Columns that not every list has; where there is one, it must say this.
_WHAT_COUNTS_IF_THERE: Final = {"operation": ("RunInstances",), "MarketOption": ("OnDemand", "")}
_NEEDED: Final = ("Instance Type", "PricePerUnit", *_WHAT_COUNTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """The zones whose spot prices count, sorted, and the time by the cloud's own clock."""

    names: tuple[str, ...]
    now: datetime


class PriceList:
    """The on-demand prices of one region, read when they are asked for and kept for a day."""

    def __init__(self, url: str, *, region: str, clock: Callable[[], float]) -> None:
        #: These two are as `on_demand_prices` takes them.
        self._url = url
        self._region = region
        #: Tells monotonic seconds.
        self._clock = clock
        self._lock = threading.Lock()
        self._prices: Mapping[str, Decimal] = {}
        self._read_at_s = 0.0

    def prices(self) -> Mapping[str, Decimal]:
        """Return the prices by EC2's name of the type; raises `CloudError`."""
        with self._lock:
            if not self._prices or self._clock() - self._read_at_s > PRICE_LIST_AGE_S:
                self._prices = on_demand_prices(self._url, region=self._region)
                self._read_at_s = self._clock()
            return self._prices


def prices(
    client: Any,
    instance_types: Iterable[InstanceType],
    *,
    parameters: Ec2Parameters,
    price_list: PriceList,
) -> dict[str, Decimal]:
    """Return what an hour of each type costs now in USD, by our name of the type.

    The two sources are asked only for what needs them; types that they do not know are left out.
    `client` is boto3's for EC2, in the region of the parameters. Raises any `CloudError`.
    """
    wanted = sorted(instance_types, key=lambda each: each.name)
    spot_names = {each.provider_type for each in wanted if each.preemptible}
    try:
        within = zones(client, parameters.subnets, parameters.zones) if spot_names else None
        spot = spot_prices(client, spot_names, within) if within else {}
    except FAILURES as failure:
        raise judged(
            failure, call="the prices of the spot market", changes=False
        ).error from failure
    on_demand = price_list.prices() if any(not each.preemptible for each in wanted) else {}
    found = {
        each.name: (spot if each.preemptible else on_demand).get(each.provider_type)
        for each in wanted
    }
    return {name: price for name, price in found.items() if price is not None}


def on_demand_prices(url: str, *, region: str) -> dict[str, Decimal]:
    """Return what an hour of Linux on each instance type costs in USD, by EC2's name of the type.

    `url` is that of a price list for one region as AWS publishes it in CSV, with `{region}` for the
    region's name; "" is AWS's own. That one has hundreds of megabytes, so that the answer may take
    a minute; it is read as it comes, `PRICE_LIST_LIMIT_BYTES` at most. Raises `CloudError` when it
    cannot be had or read.
    """
    place = (url or PRICE_LIST_URL).replace("{region}", region)
    http = _way_to(
        place,
        # An answer that says when to come again is told as it is, and not waited for in here.
        retries=urllib3.Retry(connect=2, read=False, redirect=3, respect_retry_after_header=False),
        timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT_S, read=_READ_TIMEOUT_S),
        headers={"Accept-Encoding": "gzip"},
    )
    try:
        return _fetched(http, place)
    except (urllib3.exceptions.HTTPError, UnicodeDecodeError, csv.Error) as error:
        raise CloudError(
            f"the price list {place} cannot be read ({error}); name another one as price_list_url"
        ) from error
    finally:
        http.clear()


def _way_to(place: str, *, headers: dict[str, str], **options: Any) -> urllib3.PoolManager:
    """Return what asks `place`, through the proxy of the environment where boto3 would take it."""
    proxies = ProxyConfiguration(get_environ_proxies(place))
    proxy = proxies.proxy_url_for(place)
    if not proxy:
        return urllib3.PoolManager(headers=headers, **options)
    own = proxies.proxy_headers_for(proxy)
    return urllib3.ProxyManager(proxy, headers=headers, proxy_headers=own, **options)


def _fetched(http: urllib3.PoolManager, place: str) -> dict[str, Decimal]:
    response = http.request("GET", place, preload_content=False)
    try:
        if response.status != 200:
            raise CloudError(
                f"the price list {place} is answered with status {response.status};"
                " see that region and price_list_url are right"
            )
        lines = _lines(response.stream(_CHUNK_BYTES, decode_content=True), place)
        prices = listed_prices(lines)
    finally:
        # What is left of it is not worth reading for the sake of the connection.
        response.close()
    if not prices:
        raise CloudError(
            f"the price list {place} has no on-demand price for Linux in USD;"
            " see that region and price_list_url are right"
        )
    return prices


def _lines(chunks: Iterable[bytes], place: str) -> Iterator[str]:
    """Yield the lines of a body; raises `CloudError` for more than anybody would publish."""
    rest, length = b"", 0
    for chunk in chunks:
        length += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        if length > PRICE_LIST_LIMIT_BYTES or len(rest) > _LINE_LIMIT_BYTES:
            raise CloudError(
                f"the price list {place} is too long to be one;"
                " name the CSV list of one region as price_list_url"
            )
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()


def listed_prices(lines: Iterable[str]) -> dict[str, Decimal]:
    """Return the prices that the lines of a list tell; raises `CloudError` if it is no such list.

    Of several prices of one type, the first counts.
    """
    head, rows = _head(lines)
    columns = {name: place for place, name in enumerate(head)}
    wanted = _WHAT_COUNTS | {
        name: values for name, values in _WHAT_COUNTS_IF_THERE.items() if name in columns
    }
    prices: dict[str, Decimal] = {}
    # Reading a line costs far more than seeing that it is about something else, as most are.
    for row in csv.reader(line for line in rows if "OnDemand" in line and "Linux" in line):
        if len(row) < len(head) or any(
            row[columns[name]] not in values for name, values in wanted.items()
        ):
            continue
        price = _price(row[columns["PricePerUnit"]])
        if price is not None:
            prices.setdefault(row[columns["Instance Type"]], price)
    return prices


def _head(lines: Iterable[str]) -> tuple[list[str], Iterator[str]]:
    """Return the names of the columns, which follow some lines about the list, and the rest."""
    rows = iter(lines)
    for _, line in zip(range(_PREAMBLE_LINES), rows, strict=False):
        names = next(csv.reader([line]), [])
        if all(name in names for name in _NEEDED):
            return names, rows
    raise CloudError(
        "the price list is none of EC2's in CSV; price_list_url names one for one region,"
        " which ends in index.csv"
    )


def _price(text: str) -> Decimal | None:
    """Return a price in USD; None for nothing, which is what reserved capacity costs an hour.

    What no instance costs is none either: whoever alters a list must not make a type free.
    """
    try:
        price = Decimal(text)
    except InvalidOperation:
        return None
    in_range = price.is_finite() and _LEAST_USD <= price <= _MOST_USD
    return price.normalize() if in_range else None


def zones(client: Any, subnets: Sequence[str], names: Sequence[str]) -> Zones:
    """Return the zones of these subnets, else the named ones, else all of the client's region.

    `client` is boto3's for EC2; raises what botocore raises.
    """
    if subnets:
        answer = client.describe_subnets(SubnetIds=list(subnets))
        found = {each["AvailabilityZone"] for each in answer["Subnets"]}
    else:
        answer = client.describe_availability_zones(**({"ZoneNames": list(names)} if names else {}))
        found = {each["ZoneName"] for each in answer["AvailabilityZones"]}
    # Drivers have no clock of their own, and a machine's may be wrong.
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    try:
        now = parsedate_to_datetime(date)
    except ValueError as error:
        raise CloudError(f"EC2 does not say what time it is ({date!r}); try again") from error
    return Zones(names=tuple(sorted(found)), now=now)


def spot_prices(client: Any, provider_types: Iterable[str], within: Zones) -> dict[str, Decimal]:
    """Return what an hour on the spot market costs now in USD, by EC2's name of the type.

    That is the price in the cheapest of the zones; types without one there are left out. `client`
    is boto3's for EC2; raises what botocore raises.
    """
    prices: dict[str, Decimal] = {}
    for some in batches(sorted(set(provider_types))):
        # Beginning and ending now, the history is the prices that hold.
        for entry in pages(
            client.describe_spot_price_history,
            "SpotPriceHistory",
            InstanceTypes=some,
            ProductDescriptions=list(_SPOT_PRODUCTS),
            StartTime=within.now,
            EndTime=within.now,
        ):
            price = _price(entry["SpotPrice"])
            if price is None or entry["AvailabilityZone"] not in within.names:
                continue
            name = entry["InstanceType"]
            prices[name] = min(price, prices.get(name, price))
    return prices


def spot_history(
    client: Any, instance_types: Iterable[InstanceType], within: Zones, since: datetime
) -> list[ZonePrice]:
    """Return what preemptible types cost in zones since a time, by our names, sorted by time.

    EC2 tells what held then too, with the earlier time since which it did. `client` is boto3's for
    EC2; raises what botocore raises.
    """
    named: dict[str, list[str]] = {}
    for each in sorted(instance_types, key=lambda type_: type_.name):
        if each.preemptible:
            named.setdefault(each.provider_type, []).append(each.name)
    found: list[ZonePrice] = []
    for some in batches(sorted(named)):
        for entry in pages(
            client.describe_spot_price_history,
            "SpotPriceHistory",
            InstanceTypes=some,
            ProductDescriptions=list(_SPOT_PRODUCTS),
            StartTime=min(since, within.now),
            EndTime=within.now,
        ):
            price = _price(entry["SpotPrice"])
            if price is None or entry["AvailabilityZone"] not in within.names:
                continue
            found += [
                ZonePrice(
                    type_name=name,
                    zone=entry["AvailabilityZone"],
                    valid_from=entry["Timestamp"].timestamp(),
                    usd_per_hour=price,
                )
                for name in named[entry["InstanceType"]]
            ]
    return sorted(found, key=lambda each: (each.valid_from, each.zone, each.type_name))


def batches(names: Sequence[str]) -> Iterator[list[str]]:
    """Yield `names` in lists that one call takes."""
    for begin in range(0, len(names), TYPES_PER_CALL):
        yield list(names[begin : begin + TYPES_PER_CALL])


def pages(call: Any, what: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the items called `what` of all pages of a listing."""
    token: str | None = None
    while True:
        answer = call(**arguments, **({"NextToken": token} if token else {}))
        yield from answer[what]
        following = answer.get("NextToken")
        if not following:
            return
        if following == token:
            raise CloudError(f"EC2 gives the same page of {what} again and again; try again later")
        token = following

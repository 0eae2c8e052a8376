"""`longshore driver types`: from moto's offerings and a price list served over HTTP to YAML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.cli.commands.driver_types import as_configured
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.config.loading import instance_types, load_config
from longshore.dispatcher.config.model import TypeConfig
from longshore.dispatcher.config.types import as_instance_type
from longshore.dispatcher.input.validation import decode_all
from longshore.drivers.ec2 import prices as prices_module
from longshore.drivers.ec2.prices import PriceList, listed_prices, on_demand_prices
from longshore.drivers.errors import CloudError
from longshore.drivers.interface import InstanceType, Resources
from tests.ec2_bed.bed import Ec2Bed
from tests.ec2_bed.faults import Fault, Kind
from tests.ec2_bed.price_list import PriceListServer, price_list

Capture = pytest.CaptureFixture[str]

PRICES = {
    "c5.large": "0.0850000000",
    "g4dn.xlarge": "0.5260000000",
    "g4dn.12xlarge": "3.9120000000",
    "i3.large": "0.1560000000",
    "m5.large": "0.0960000000",
    "m5.xlarge": "0.1920000000",
    "m5d.large": "0.1130000000",
    "m6g.medium": "0.0385000000",
    "mac1.metal": "1.0830000000",
}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Bed]:
    with Ec2Bed(tmp_path_factory.mktemp("ec2")) as made:
        yield made


@pytest.fixture
def listed() -> Iterator[PriceListServer]:
    with PriceListServer(PRICES) as server:
        yield server


@pytest.fixture
def config(bed: Ec2Bed, listed: PriceListServer, tmp_path: Path) -> Path:
    """Only the driver's section is right yet."""
    path = tmp_path / "longshore.yml"
    parameters = bed.parameters(price_list_url=listed.url)
    path.write_text(
        yaml.safe_dump({"driver": {"name": "ec2", "parameters": parameters}, "listn": 5}),
        encoding="utf-8",
    )
    return path


def written(config: Path, capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert main(["driver", "types", "-c", str(config), *arguments]) == 0
    section: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return section


def test_what_is_written_is_a_section_of_the_configuration(
    bed: Ec2Bed, config: Path, listed: PriceListServer, tmp_path: Path, capsys: Capture
) -> None:
    section = written(config, capsys, "--families", "m5,m5d, g4dn", "--preemptible")
    types = section["instance_types"]
    assert list(types) == sorted(types)
    assert types["m5.large"] == {
        "provider_type": "m5.large",
        "cpus": 2,
        "memory": "8GiB",
        "price_per_hour": 0.096,
        "labels": {"arch": "x86_64"},
        "reserve": {"memory": "420MiB"},
    }
    assert types["m5.large-spot"] == {
        **types["m5.large"],
        "price_per_hour": 0.00001,
        "preemptible": True,
    }
    assert types["m5d.large"]["disk"] == "75GB"
    assert types["g4dn.12xlarge"]["gpus"] == {"count": 4, "memory": "16GiB", "model": "t4"}
    on_demand = {name for name in types if not name.endswith("-spot")}
    assert on_demand == {"m5.large", "m5.xlarge", "m5d.large", "g4dn.xlarge", "g4dn.12xlarge"}
    assert listed.asked == ["/offers/us-east-1/index.csv"]
    whole = tmp_path / "whole.yml"
    driver = {"driver": yaml.safe_load(config.read_text())["driver"]}
    named = {**driver, "pool": {"image": bed.image}, **section}
    whole.write_text(yaml.safe_dump(named), encoding="utf-8")
    assert main(["config", "check", "-c", str(whole)]) == 0
    assert {each.name for each in instance_types(load_config(whole))} == set(types)
    for action in ("DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory"):
        assert bed.proxy.calls[action] > 1, "there are several pages"


def test_types_that_cannot_be_had_are_left_out(config: Path, capsys: Capture) -> None:
    types = written(config, capsys)["instance_types"]
    assert "t3.micro" not in types, "its price is not known"
    assert "mac1.metal" not in types, "it takes a host of its own"
    assert types["m6g.medium"]["labels"] == {"arch": "arm64"}
    assert types["i3.large"]["disk"] == "475GB"
    assert not [name for name in types if name.endswith("-spot")]


def test_json_says_the_same(config: Path, capsys: Capture) -> None:
    section = written(config, capsys, "--families", "c5")
    assert main(["driver", "types", "-c", str(config), "--families", "c5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == section


def test_another_region_has_other_zones(config: Path, listed: PriceListServer) -> None:
    region = ("--region", "eu-west-1", "--families", "m5")
    assert main(["driver", "types", "-c", str(config), *region]) == 0
    assert listed.asked == ["/offers/eu-west-1/index.csv"]


def test_what_goes_wrong_is_one_sentence(bed: Ec2Bed, config: Path, capsys: Capture) -> None:
    def refused(*arguments: str) -> tuple[int, str]:
        code = main(["driver", "types", *arguments])
        told = capsys.readouterr()
        assert told.out == ""
        return code, told.err

    of_file = ("-c", str(config))
    code, told = refused(*of_file, "--families", "m55")
    assert (code, "Ask for other families" in told) == (1, True)
    code, told = refused(*of_file, "--driver", "loopback")
    assert (code, "loopback does not tell which instance types" in told) == (2, True)
    code, told = refused(*of_file, "--driver", "ec3")
    assert (code, "there is no driver 'ec3'" in told) == (2, True)
    with bed.plan.standing(Fault(kind=Kind.ERROR, action="*", code="AuthFailure", status=401)):
        code, told = refused(*of_file)
    assert (code, "AuthFailure" in told) == (1, True)
    broken = config.with_name("broken.yml")
    broken.write_text("driver: {name: ec2, parameters: {subnets: [subnet], regoin: x}}\n")
    code, told = refused("-c", str(broken))
    assert (code, "driver.parameters.regoin" in told) == (2, True)
    broken.write_text("driver: {name: ec2, parameters: {subnets: [subnet]}}\n")
    code, told = refused("-c", str(broken))
    assert (code, "driver.parameters.subnets[0]: is not a subnet's id" in told) == (2, True)


def test_a_price_list_that_is_none_is_an_error() -> None:
    cases = [
        (b"<html>no list</html>", 200, "is none of EC2's in CSV"),
        (b"", 404, "is answered with status 404"),
        (price_list(PRICES, Currency="CNY").encode(), 200, "no on-demand price for Linux in USD"),
        (b"x" * 300_000, 200, "is too long to be one"),
        (b"\xff\xfe\n" * 30, 200, "cannot be read"),
    ]
    for body, status, told in cases:
        with (
            PriceListServer(body=body, status=status) as server,
            pytest.raises(CloudError, match=told),
        ):
            on_demand_prices(server.url, region="us-east-1")
    with PriceListServer() as stopped:
        gone = stopped.url
    with pytest.raises(CloudError, match="name another one as price_list_url"):
        on_demand_prices(gone, region="us-east-1")


def test_a_list_that_shall_be_asked_for_later_is_an_error_at_once() -> None:
    with PriceListServer(status=503, headers={"Retry-After": "1"}) as server:
        with pytest.raises(CloudError, match="is answered with status 503"):
            on_demand_prices(server.url, region="us-east-1")
        assert len(server.asked) == 1


def test_a_list_is_asked_for_through_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with PriceListServer({"m5.large": "0.096"}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.partition("/offers")[0])
        found = on_demand_prices("http://pricing.invalid/{region}.csv", region="r")
        assert proxy.asked == ["http://pricing.invalid/r.csv"]
    assert found == {"m5.large": Decimal("0.096")}


def test_a_list_is_read_no_further_than_any_list_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices_module, "PRICE_LIST_LIMIT_BYTES", 1000)
    with (
        PriceListServer(PRICES) as server,
        pytest.raises(CloudError, match="is too long to be one"),
    ):
        on_demand_prices(server.url, region="us-east-1")


def test_of_all_prices_that_of_plain_linux_counts() -> None:
    found = listed_prices(price_list(PRICES).splitlines(keepends=True))
    assert found == {name: Decimal(price).normalize() for name, price in PRICES.items()}


@pytest.mark.parametrize("text", ["1e999999", "1e-400", "-1", "NaN", "Infinity", "free"])
def test_what_no_instance_costs_is_no_price(text: str) -> None:
    assert listed_prices(price_list({"m5.large": text}).splitlines(keepends=True)) == {}


def test_prices_are_read_once_a_day() -> None:
    now = 0.0
    with PriceListServer({"m5.large": "0.096"}) as server:
        kept = PriceList(server.url, region="r", clock=lambda: now)
        assert kept.prices() == kept.prices() == {"m5.large": Decimal("0.096")}
        assert len(server.asked) == 1
        now = prices_module.PRICE_LIST_AGE_S + 1
        kept.prices()
        assert len(server.asked) == 2


amounts = st.integers(0, 2**40)
resources = st.builds(
    Resources,
    cpu_millis=st.integers(0, 10_000_000),
    memory_bytes=amounts,
    disk_bytes=amounts,
    gpus=st.integers(0, 16),
    custom=st.sampled_from([(), (("licence", 3),)]),
)


def offered(
    *,
    whole: Resources,
    reserve: Resources,
    price: Decimal,
    preemptible: bool,
    model: str,
    gpu_memory_bytes: int,
    defaults: tuple[tuple[str, int], ...],
) -> InstanceType:
    """Return a type as a driver may offer it: what has no GPUs says nothing of them."""
    return InstanceType(
        name="large",
        provider_type="m5.large",
        resources=whole,
        reserve=reserve,
        price_usd_per_hour=price,
        preemptible=preemptible,
        labels=(("arch", "arm64"),),
        gpu_model=model if whole.gpus else "",
        gpu_memory_bytes=gpu_memory_bytes if whole.gpus else 0,
        defaults=defaults,
    )


@given(
    st.builds(
        offered,
        whole=resources,
        reserve=resources,
        price=st.decimals(0, 1000, places=6),
        preemptible=st.booleans(),
        model=st.sampled_from(["", "a100"]),
        gpu_memory_bytes=amounts,
        defaults=st.sampled_from([(), (("cpus", 500), ("licence", 1), ("memory", 2**30))]),
    )
)
def test_whatever_a_driver_offers_can_be_configured(instance_type: InstanceType) -> None:
    text = yaml.safe_dump(as_configured(instance_type))
    assert as_instance_type("large", decode_all(TypeConfig, yaml.safe_load(text))) == instance_type

"""The driver `ec2` against moto's server over HTTP, with the trouble that moto cannot make."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError

from longshore.drivers.billing import Bills, EndedBy, TellsBilling
from longshore.drivers.ec2.driver import DRIVER
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import (
    CLUSTER_TAG,
    TOKEN_TAG,
    Existence,
    Finds,
    Found,
    Instance,
    InstanceSet,
    InstanceType,
    Leftovers,
    Power,
    Resources,
    TellsCondition,
    ZonePrices,
)
from longshore.drivers.registry import DriverContext
from longshore.pool.remote.ssh_keys import new_private_key, public_key_text
from tests.ec2_bed.bed import Ec2Bed
from tests.ec2_bed.faults import Fault, Kind
from tests.ec2_bed.moto_process import client_arguments
from tests.ec2_bed.user_data import parts_of
from tests.sshd_host import require_sshd

LARGE = InstanceType(
    name="large",
    provider_type="m5.large",
    resources=Resources(cpu_millis=2000, memory_bytes=8 * 2**30, disk_bytes=20 * 2**30),
    price_usd_per_hour=Decimal("0.096"),
)
SPOT = replace(LARGE, name="large-spot", preemptible=True)
TAGS = {CLUSTER_TAG: "contract", "owner": "us, and *nobody* else"}
LISTING = "DescribeInstances"
SUBNET = "SubnetId"

Open = Callable[..., InstanceSet]

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def shared_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Bed]:
    require_sshd()
    with Ec2Bed(tmp_path_factory.mktemp("ec2")) as made:
        yield made


@pytest.fixture
def bed(shared_bed: Ec2Bed) -> Iterator[Ec2Bed]:
    shared_bed.clear()
    yield shared_bed
    shared_bed.clear()


@pytest.fixture(scope="module")
def public_key() -> str:
    return public_key_text(new_private_key())


@pytest.fixture
def opened(bed: Ec2Bed, tmp_path: Path) -> Iterator[Open]:
    """Open instance sets on the bed, as dispatchers do that start; they are closed in the end."""
    made: list[InstanceSet] = []

    def open_(**changes: Any) -> InstanceSet:
        parameters = msgspec.convert(bed.parameters(**changes), Ec2Parameters)
        assert DRIVER.check is not None
        assert list(DRIVER.check(parameters)) == []
        context = DriverContext(cluster="contract", state_dir=tmp_path, clock=time.monotonic)
        made.append(DRIVER.make(parameters, context))
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def create(bed: Ec2Bed, public_key: str) -> Callable[..., Instance]:
    def create_(
        of: InstanceSet, token: str, type_: InstanceType = LARGE, key: str = public_key
    ) -> Instance:
        return of.create(
            instance_type=type_,
            image=bed.image,
            tags=TAGS,
            init_command="true",
            public_key=key,
            token=token,
        )

    return create_


@pytest.mark.parametrize(
    "case",
    [
        ("RequestLimitExceeded", 503, RateLimitError, None),
        ("InsufficientInstanceCapacity", 500, CapacityError, ErrorScope.TYPE),
        ("SpotMaxPriceTooLow", 400, CapacityError, ErrorScope.TYPE),
        ("InstanceLimitExceeded", 400, QuotaError, ErrorScope.TYPE),
        ("VcpuLimitExceeded", 400, QuotaError, ErrorScope.GROUP),
        ("MaxSpotInstanceCountExceeded", 400, QuotaError, ErrorScope.GROUP),
        ("InsufficientFreeAddressesInSubnet", 400, QuotaError, ErrorScope.ALL),
        ("VolumeLimitExceeded", 400, QuotaError, ErrorScope.ALL),
        ("AuthFailure", 401, CloudAuthError, None),
        ("UnauthorizedOperation", 403, CloudAuthError, None),
        ("InternalError", 500, AmbiguousResult, None),
        ("Unavailable", 503, AmbiguousResult, None),
        ("SomethingNew", 400, CloudError, None),
    ],
    ids=lambda case: case[0],
)
def test_each_code_is_its_error(
    bed: Ec2Bed,
    opened: Open,
    create: Callable[..., Instance],
    case: tuple[str, int, type[CloudError], ErrorScope | None],
) -> None:
    code, status, error, scope = case
    with (
        bed.plan.standing(Fault(kind=Kind.ERROR, code=code, status=status)),
        pytest.raises(error, match=code) as raised,
    ):
        create(opened(), "token")
    assert type(raised.value) is error
    assert getattr(raised.value, "scope", None) is scope
    assert bed.truth() == []


def test_what_somebody_stops_or_ends_is_told_as_what_it_is(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    instance_set = opened()
    made = create(instance_set, "token")
    bed.account.stop_instances(InstanceIds=[made.id])
    [seen] = instance_set.instances(TAGS)
    assert isinstance(seen, TellsCondition)
    assert (seen.address, seen.condition.power) == ("", Power.STOPPED)
    why = "Client.UserInitiatedShutdown: User initiated shutdown"
    assert seen.condition.reason == why
    bed.account.terminate_instances(InstanceIds=[made.id])
    assert isinstance(instance_set, Finds)
    assert instance_set.find(made.id) == Found(existence=Existence.GONE, reason=why)


def test_where_one_subnet_is_short_the_next_is_tried(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    short = Fault(
        kind=Kind.ERROR,
        code="InsufficientInstanceCapacity",
        status=500,
        where=((SUBNET, bed.subnets[0]),),
    )
    with bed.plan.standing(short):
        made = create(opened(), "token")
    (truth,) = bed.truth()
    assert (truth.id, truth.subnet) == (made.id, bed.subnets[1])
    # It is where the token is known, though the first has room now; also for who starts anew.
    assert create(opened(), "token").id == made.id
    with (
        bed.plan.standing(Fault(kind=Kind.ERROR, code="InsufficientInstanceCapacity", status=500)),
        pytest.raises(CapacityError),
    ):
        create(opened(), "another")
    asked = [each[SUBNET] for each in bed.proxy.launches]
    assert asked == [*bed.subnets, *bed.subnets]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind=Kind.LOST_ANSWER),
        Fault(kind=Kind.LATE_ANSWER, delay_s=30.0),
        Fault(kind=Kind.ERROR_AFTER, code="InternalError", status=500),
    ],
    ids=lambda fault: fault.kind.value,
)
@pytest.mark.parametrize("type_", [LARGE, SPOT], ids=["on demand", "spot"])
def test_what_nobody_knows_of_is_found_by_its_token(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance], fault: Fault, type_: InstanceType
) -> None:
    # Short enough to be waited for, long enough for all that is answered on a busy machine.
    first = opened(read_timeout_s=5 if fault.kind is Kind.LATE_ANSWER else 60)
    bed.plan.order(fault)
    with pytest.raises(AmbiguousResult):
        create(first, "token", type_)
    assert len(bed.proxy.launches) == 1, "no other subnet is tried"
    (truth,) = bed.truth()
    assert truth.spot is type_.preemptible
    assert [each.id for each in first.instances({TOKEN_TAG: "token"})] == [truth.id]
    assert create(first, "token", type_).id == truth.id
    assert create(opened(), "token", type_).id == truth.id, "another process finds it, too"
    assert len(bed.truth()) == 1


def test_a_request_that_was_never_sent_is_no_doubt(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    # Nobody listens on the port that the machines have, on the address of none.
    nowhere = opened(endpoint_url=f"http://127.0.0.1:{bed.machines.port}")
    with pytest.raises(CloudError) as raised:
        create(nowhere, "token")
    assert type(raised.value) is CloudError


def test_all_pages_are_listed_and_nothing_twice(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    set_ = opened()
    ids = sorted(create(set_, f"token-{number}").id for number in range(7))
    before = bed.proxy.calls[LISTING]
    assert [each.id for each in set_.instances(TAGS)] == ids
    assert bed.proxy.calls[LISTING] - before == 3, "three a page"
    with bed.plan.standing(Fault(kind=Kind.TWICE, action=LISTING)):
        assert [each.id for each in set_.instances(TAGS)] == ids
    assert set_.instances({**TAGS, "owner": "us, and *"}) == [], "no value is a pattern"
    with (
        bed.plan.standing(Fault(kind=Kind.CUT, action=LISTING)),
        pytest.raises(CloudError),
    ):
        set_.instances(TAGS)
    set_.instances(TAGS)[0].destroy()
    assert [each.id for each in set_.instances(TAGS)] == ids[1:]
    assert len(bed.truth()) == 7, "moto goes on showing what has ended"


def test_a_key_is_imported_once_and_again_when_it_is_gone(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    key = public_key_text(new_private_key())
    set_ = opened()
    before = bed.proxy.calls["ImportKeyPair"]
    create(set_, "first", LARGE, key)
    create(set_, "second", LARGE, key)
    assert bed.proxy.calls["ImportKeyPair"] - before == 1
    name = bed.proxy.launches[-1]["KeyName"]
    assert name.startswith("longshore-")
    bed.account.delete_key_pair(KeyName=name)
    missing = Fault(kind=Kind.ERROR, code="InvalidKeyPair.NotFound")
    bed.plan.order(missing)
    assert create(set_, "third", LARGE, key).id
    assert bed.proxy.calls["ImportKeyPair"] - before == 2
    bed.account.delete_key_pair(KeyName=name)
    other = public_key_text(new_private_key())
    bed.account.import_key_pair(KeyName=name, PublicKeyMaterial=other.encode())
    with pytest.raises(CloudError, match=f"{name} of the account holds another key"):
        create(opened(), "fourth", LARGE, key)
    bed.account.delete_key_pair(KeyName=name)


def test_what_is_asked_of_an_instance(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance], public_key: str
) -> None:
    set_ = opened(extra_tags={"team": "tide"}, spot_max_price="0.25")
    made = create(set_, "token", SPOT)
    assert made.tags == {**TAGS, TOKEN_TAG: "token", "team": "tide"}
    (launch,) = bed.proxy.launches
    asked = {
        "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.MaxPrice": "0.25",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.HttpPutResponseHopLimit": "1",
        "SecurityGroupId.1": bed.security_group,
        "BlockDeviceMapping.1.Ebs.VolumeSize": "20",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
    }
    assert {name: launch.get(name) for name in asked} == asked
    assert public_key in parts_of(launch["UserData"])["longshore-first-boot"]
    volumes = bed.account.describe_volumes(
        Filters=[{"Name": "attachment.instance-id", "Values": [made.id]}]
    )["Volumes"]
    assert 20 in [each["Size"] for each in volumes]
    made.set_tags({"longshore-idle-behavior": "hold"})
    (listed,) = set_.instances(TAGS)
    assert listed.tags == {**made.tags, "longshore-idle-behavior": "hold"}
    machine = bed.machines.get(made.id)
    assert machine is not None
    assert listed.address == f"{machine.address}:{bed.machines.port}"


def test_when_billing_began_and_ended_is_told_by_ec2s_clock(
    opened: Open, create: Callable[..., Instance]
) -> None:
    instance_set = opened()
    before = time.time()
    instance = create(instance_set, "token")
    (listed,) = instance_set.instances(TAGS)
    assert isinstance(listed, TellsBilling)
    begun = listed.billed
    assert begun.billed_from == pytest.approx(before, abs=60)
    assert begun.zone
    instance.destroy()
    assert isinstance(instance_set, Bills)
    told = instance_set.bills([instance.id, "i-00000000000000000"])
    assert told.keys() == {instance.id}
    over = told[instance.id]
    assert (over.billed_from, over.zone) == (begun.billed_from, begun.zone)
    assert over.billed_until == pytest.approx(time.time(), abs=60)
    assert over.ended_by is EndedBy.REQUEST


def test_a_public_address_is_that_of_an_interface_of_its_own(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    made = create(opened(address="public"), "token")
    (launch,) = bed.proxy.launches
    assert launch["NetworkInterface.1.AssociatePublicIpAddress"] == "true"
    assert launch["NetworkInterface.1.SubnetId"] == bed.subnets[0]
    machine = bed.machines.get(made.id)
    assert machine is not None
    assert made.address == f"{machine.address}:{bed.machines.port}"


def test_an_instance_that_ec2_does_not_know_is_not_found(bed: Ec2Bed, opened: Open) -> None:
    set_: Any = opened()
    with pytest.raises(InstanceNotFound):
        set_.destroy("i-0123456789abcdef0")
    with pytest.raises(InstanceNotFound):
        set_.set_tags("i-0123456789abcdef0", {"a": "b"})
    assert bed.truth() == []


def test_the_bed_keeps_the_promise_about_tokens_and_moto_does_not(bed: Ec2Bed) -> None:
    launch = {
        "ImageId": bed.image,
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "the-same",
    }
    client = boto3.client("ec2", **client_arguments(bed.proxy.url))
    try:
        ids = [client.run_instances(**launch)["Instances"][0]["InstanceId"] for _ in range(2)]
        assert ids[0] == ids[1]
        with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
            client.run_instances(**launch, EbsOptimized=True)
        assert bed.twins() == {}
        assert bed.proxy.tokens.calls() == {"the-same": 3}
    finally:
        client.close()
    bed.account.run_instances(**launch)
    assert len(bed.twins()) == 1, "that is why the bed keeps it"


def test_orders_of_trouble_come_true_in_turn(bed: Ec2Bed) -> None:
    bed.plan.order(
        Fault(kind=Kind.ERROR, action=LISTING, code="First", after=1),
        Fault(kind=Kind.ERROR, action=LISTING, code="Second"),
    )
    client = boto3.client("ec2", **client_arguments(bed.proxy.url))
    told: list[str] = []
    try:
        for _ in range(4):
            try:
                client.describe_instances()
                told.append("")
            except ClientError as error:
                told.append(error.response["Error"]["Code"])
    finally:
        client.close()
    assert told == ["", "First", "Second", ""]
    assert bed.plan.happened == Counter({f"{LISTING}: First": 1, f"{LISTING}: Second": 1})
    assert bed.plan.still_open() == []


def volumes_of(bed: Ec2Bed, cluster: str = TAGS[CLUSTER_TAG]) -> list[dict[str, Any]]:
    """Return the volumes that carry our tag, whatever has become of their instances."""
    ours: list[dict[str, Any]] = bed.account.describe_volumes(
        Filters=[{"Name": f"tag:{CLUSTER_TAG}", "Values": [cluster]}]
    )["Volumes"]
    return ours


def test_volumes_end_with_their_instance_whatever_the_image_says(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    (image,) = bed.account.describe_images(ImageIds=[bed.image])["Images"]
    (root,) = image["BlockDeviceMappings"]
    assert not root["Ebs"]["DeleteOnTermination"]
    set_ = opened()
    made = [create(set_, "first"), create(set_, "second")]
    sizes = {each["Size"] for each in volumes_of(bed)}
    assert sizes == {root["Ebs"]["VolumeSize"], 20}, "the image's own one, and scratch space"
    for each in made:
        each.destroy()
    assert volumes_of(bed) == []
    assert bed.proxy.calls["DescribeImages"] == 1, "an image says it once"


def test_without_the_right_a_launch_goes_on_as_the_image_says(
    bed: Ec2Bed,
    opened: Open,
    create: Callable[..., Instance],
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_ = opened()
    with bed.plan.standing(refused("DescribeImages")):
        made = [create(set_, "first"), create(set_, "second")]
    said = [each.getMessage() for each in caplog.records if "DescribeImages" in each.getMessage()]
    assert len(said) == 1, said
    assert "allow the action in the IAM policy" in said[0]
    for each in made:
        each.destroy()
    left = volumes_of(bed)
    assert [volume["State"] for volume in left] == ["available"] * 2
    for volume in left:
        bed.account.delete_volume(VolumeId=volume["VolumeId"])


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "InvalidAMIID.NotFound"])
def test_an_image_of_which_nothing_can_be_learnt_now_is_not_launched(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance], code: str
) -> None:
    set_ = opened()
    trouble = Fault(kind=Kind.ERROR, action="DescribeImages", code=code, status=503)
    with bed.plan.standing(trouble), pytest.raises(CloudError, match=code) as raised:
        create(set_, "token")
    assert not isinstance(raised.value, AmbiguousResult)
    assert bed.truth() == []
    assert create(set_, "token").id


def test_what_stays_of_an_instance_is_listed_as_left(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    set_ = opened()
    assert isinstance(set_, Leftovers)
    with bed.plan.standing(refused("DescribeImages")):
        made = create(set_, "token")
    assert set_.leftovers(TAGS) == [], "what an instance has is not left"
    made.destroy()
    tagged = {
        "ResourceType": "network-interface",
        "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()],
    }
    interface = bed.account.create_network_interface(
        SubnetId=bed.subnets[0], TagSpecifications=[tagged]
    )["NetworkInterface"]["NetworkInterfaceId"]
    foreign = bed.account.create_volume(AvailabilityZone=bed.zones[0], Size=1)["VolumeId"]
    (volume,) = volumes_of(bed)
    try:
        network, disk = set_.leftovers(TAGS)
        assert (network.kind, network.id) == ("network interface", interface)
        assert (disk.kind, disk.id) == ("volume", volume["VolumeId"])
        assert disk.detail.startswith("15 GiB")
        assert set_.leftovers({**TAGS, "owner": "us, and *"}) == [], "no value is a pattern"
        for action in ("DescribeVolumes", "DescribeNetworkInterfaces"):
            with (
                bed.plan.standing(refused(action)),
                pytest.raises(CloudAuthError, match=f"{action}: UnauthorizedOperation"),
            ):
                set_.leftovers(TAGS)
    finally:
        bed.account.delete_network_interface(NetworkInterfaceId=interface)
        for each in (foreign, volume["VolumeId"]):
            bed.account.delete_volume(VolumeId=each)
    assert set_.leftovers(TAGS) == []


def refused(action: str) -> Fault:
    """Return the refusal of an action that the IAM policy does not allow."""
    return Fault(kind=Kind.ERROR, action=action, code="UnauthorizedOperation", status=403)


def test_spot_prices_of_zones_are_told_by_our_names_with_the_time_since_which_they_hold(
    opened: Open,
) -> None:
    set_ = opened()
    assert isinstance(set_, ZonePrices)
    now = time.time()
    told = set_.zone_prices([LARGE, SPOT], ["us-east-1a", "us-east-1b"], now - 3600.0)
    assert {(each.type_name, each.zone) for each in told} == {
        ("large-spot", "us-east-1a"),
        ("large-spot", "us-east-1b"),
    }
    assert all(each.usd_per_hour == Decimal("0.00001") for each in told)
    assert [each.valid_from for each in told] == sorted(each.valid_from for each in told)
    assert set_.zone_prices([LARGE], ["us-east-1a"], now) == ()


def test_where_a_reservation_is_full_it_is_done_without(
    bed: Ec2Bed, opened: Open, create: Callable[..., Instance]
) -> None:
    kept, reserved = opened(), replace(LARGE, reservation="cr-0a")
    inside = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
    full = Fault(kind=Kind.ERROR, code="ReservationCapacityExceeded", where=((inside, "cr-0a"),))
    with bed.plan.standing(full):
        made = create(kept, "token", reserved)
    (truth,) = bed.truth()
    assert truth.id == made.id
    # It is where the token is known, though the reservation has room now.
    assert create(kept, "token", reserved).id == made.id
    assert create(opened(), "token", reserved).id == made.id
    create(kept, "another", reserved)
    assert [each.get(inside) for each in bed.proxy.launches] == ["cr-0a", None, None, "cr-0a"]

"""Creating, finding, tagging and ending instances: what is asked of EC2, in which order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from longshore.drivers.ec2.keys import key_name
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import (
    CLUSTER_TAG,
    Condition,
    Existence,
    Found,
    HostKeyVerdict,
    Power,
    TellsCondition,
)
from tests.ec2_answers import (
    HUNG_UP,
    KEY,
    OUR_KEY,
    Answer,
    Script,
    Site,
    create,
    described,
    done,
    launched,
    listing,
    open_site,
    refusal,
)

SHORT = refusal("InsufficientInstanceCapacity", status=500)
KMS_REASON = (
    "Client.InternalError: Client error on launch; mostly a KMS key of a volume or image that is"
    " disabled, or that this account may not use"
)
SUBNETS = ("subnet-1", "subnet-2", "subnet-3")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


# ---- creating -------------------------------------------------------------------------------


def test_with_one_place_a_create_is_one_request_and_the_answer_is_the_instance(site: Site) -> None:
    made = launched(described("i-1", state="pending", longshore_cluster="c"))
    instance = create(site.open(Script(RunInstances=[made])))
    assert (instance.id, instance.address) == ("i-1", "10.0.0.7:22")
    assert dict(instance.tags) == {CLUSTER_TAG: "c"}
    assert instance.verify_host_key(KEY) is HostKeyVerdict.UNKNOWN
    assert site.actions() == ["DescribeKeyPairs", "RunInstances"]
    (sent,) = site.words.asked("RunInstances")
    assert sent["KeyName"] == key_name(KEY)
    assert sent["ImageId"] == "ami-1"


def test_calls_at_once_with_one_token_make_one_instance_where_room_comes_free(site: Site) -> None:
    by_token: dict[str, Answer] = {}
    refused: list[str] = []

    def respond(action: str, asked: Mapping[str, str]) -> Answer:
        if action != "RunInstances":
            return OUR_KEY if action == "DescribeKeyPairs" else listing()
        if not refused:
            refused.append(asked["SubnetId"])
            return SHORT
        made = launched(described(f"i-{len(by_token) + 1}"))
        return by_token.setdefault(asked["ClientToken"], made)

    instance_set = site.open(respond, subnets=SUBNETS)
    with ThreadPoolExecutor(6) as threads:
        made = list(threads.map(lambda _: create(instance_set).id, range(6)))
    assert made == ["i-1"] * 6


def test_places_are_tried_in_turn_while_they_are_short(site: Site) -> None:
    instance_set = site.open(
        Script(
            DescribeInstances=[listing()],
            RunInstances=[SHORT, refusal("Unsupported"), launched(described("i-1"))],
        ),
        subnets=SUBNETS,
    )
    assert create(instance_set).id == "i-1"
    assert site.subnets() == list(SUBNETS)
    tokens = [each["ClientToken"] for each in site.words.asked("RunInstances")]
    assert len(set(tokens)) == 3


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([SHORT], CapacityError),
        ([refusal("InsufficientFreeAddressesInSubnet")], QuotaError),
        # The type is short where there are addresses: other types may be had there.
        ([refusal("InsufficientFreeAddressesInSubnet"), SHORT], CapacityError),
        ([SHORT, refusal("InsufficientFreeAddressesInSubnet")], CapacityError),
    ],
    ids=["short", "full", "full-then-short", "short-then-full"],
)
def test_when_no_place_will_do_the_narrowest_reason_is_told(
    site: Site, answers: list[Answer], error: type[CloudError]
) -> None:
    instance_set = site.open(
        Script(DescribeInstances=[listing()], RunInstances=answers), subnets=SUBNETS
    )
    with pytest.raises(CloudError) as caught:
        create(instance_set)
    assert type(caught.value) is error
    assert "subnet-" in str(caught.value)
    assert site.subnets() == list(SUBNETS)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (HUNG_UP, AmbiguousResult),
        (refusal("InternalError", status=500), AmbiguousResult),
        (refusal("IdempotentParameterMismatch"), AmbiguousResult),
        (refusal("VcpuLimitExceeded"), QuotaError),
        (refusal("RequestLimitExceeded", status=503), RateLimitError),
        (refusal("UnauthorizedOperation", status=403), CloudAuthError),
        (refusal("InvalidAMIID.NotFound"), CloudError),
        (launched(), AmbiguousResult),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_nothing_else_is_tried_elsewhere(
    site: Site, answer: Answer, error: type[CloudError]
) -> None:
    instance_set = site.open(
        Script(DescribeInstances=[listing()], RunInstances=[answer]), subnets=SUBNETS
    )
    with pytest.raises(CloudError) as caught:
        create(instance_set)
    assert type(caught.value) is error
    assert site.subnets() == ["subnet-1"]
    assert "the-secret" not in str(caught.value)


def test_after_a_lost_answer_the_token_begins_where_it_was_lost(site: Site) -> None:
    script = Script(
        DescribeInstances=[listing()],
        RunInstances=[SHORT, HUNG_UP, launched(described("i-1"))],
    )
    instance_set = site.open(script, subnets=SUBNETS)
    with pytest.raises(AmbiguousResult):
        create(instance_set)
    assert create(instance_set).id == "i-1"
    first, lost, again = site.words.asked("RunInstances")
    assert [first["SubnetId"], lost["SubnetId"]] == ["subnet-1", "subnet-2"]
    assert lost == again, "EC2 returns the instance of a token for the very same request only"
    assert len(site.words.asked("DescribeInstances")) == 1


def test_a_place_that_refused_after_a_lost_answer_is_followed_by_all_others(site: Site) -> None:
    script = Script(DescribeInstances=[listing()], RunInstances=[SHORT, HUNG_UP, SHORT])
    instance_set = site.open(script, subnets=SUBNETS)
    with pytest.raises(AmbiguousResult):
        create(instance_set)
    with pytest.raises(CapacityError):
        create(instance_set)
    assert site.subnets() == ["subnet-1", "subnet-2", "subnet-2", "subnet-3", "subnet-1"]


def test_another_process_finds_the_instance_of_a_token_in_whatever_place(site: Site) -> None:
    ours = described("i-1", longshore_token="token-1", longshore_cluster="c")
    script = Script(DescribeInstances=[listing(ours)], RunInstances=[SHORT])
    assert create(site.open(script, subnets=SUBNETS)).id == "i-1"
    (asked,) = site.words.asked("DescribeInstances")
    assert "tag:longshore-token" in asked.values()
    assert site.subnets() == []


def test_with_one_place_ec2_is_asked_by_token_alone(site: Site) -> None:
    script = Script(RunInstances=[launched(described("i-1"))])
    first, second = site.open(script), site.another(script)
    assert create(first).id == create(second).id
    one, two = site.words.asked("RunInstances")
    assert one == two


def test_what_is_too_long_for_user_data_is_told_before_anything_is_asked(site: Site) -> None:
    noise = random.Random(1).randbytes(20_000).hex()
    instance_set = site.open(Script(), subnets=SUBNETS)
    with pytest.raises(CloudError, match=r"EC2 takes 16384: shorten pool\.init_command"):
        create(instance_set, init_command=noise)
    assert site.actions() == []


# ---- listing, tags, ending ------------------------------------------------------------------


def test_a_listing_is_complete_without_duplicates_and_sorted(site: Site) -> None:
    ours = [described(f"i-{number}", longshore_cluster="c") for number in (3, 1, 2)]
    script = Script(
        DescribeInstances=[
            listing(ours[0], ours[1], next_token="more"),
            listing(ours[1], ours[2], described("i-9", longshore_cluster="another")),
        ]
    )
    found = site.open(script).instances({CLUSTER_TAG: "c"})
    assert [each.id for each in found] == ["i-1", "i-2", "i-3"]
    assert [each.get("NextToken") for each in site.words.asked("DescribeInstances")] == [
        None,
        "more",
    ]


def test_a_listing_that_breaks_off_is_an_error(site: Site) -> None:
    ours = described("i-1", longshore_cluster="c")
    script = Script(
        DescribeInstances=[listing(ours, next_token="more"), refusal("InternalError", status=500)]
    )
    with pytest.raises(CloudError) as caught:
        site.open(script).instances({CLUSTER_TAG: "c"})
    assert type(caught.value) is CloudError


@pytest.mark.parametrize(
    "page",
    [
        Answer(body="<html><body>Log in to the network first.</body></html>"),
        Answer(
            body="<DescribeInstancesResponse><requestId>r-1</requestId></DescribeInstancesResponse>"
        ),
        done("DescribeTags", "<tagSet/>"),
    ],
)
def test_an_answer_of_somebody_elses_is_no_empty_listing(site: Site, page: Answer) -> None:
    with pytest.raises(CloudError, match="does not come from EC2"):
        site.open(Script(DescribeInstances=[page])).instances({CLUSTER_TAG: "c"})
    assert site.open(Script(DescribeInstances=[listing()])).instances({CLUSTER_TAG: "c"}) == []


def test_a_listing_that_goes_in_circles_is_an_error(site: Site) -> None:
    script = Script(DescribeInstances=[listing(described("i-1"), next_token="more")])
    with pytest.raises(CloudError, match="same next token"):
        site.open(script).instances({})


@pytest.mark.parametrize(
    ("state", "address", "expected"),
    [
        ("pending", "private", "10.0.0.7:2222"),
        ("running", "private", "10.0.0.7:2222"),
        ("running", "public", "198.51.100.7:2222"),
        ("shutting-down", "private", ""),
        ("stopping", "private", ""),
        ("stopped", "public", ""),
    ],
)
def test_what_is_ending_has_no_address_any_more(
    site: Site, state: str, address: str, expected: str
) -> None:
    script = Script(DescribeInstances=[listing(described("i-1", state=state))])
    (found,) = site.open(script, address=address, ssh_port=2222).instances({})
    assert found.address == expected


def test_to_destroy_is_one_request(site: Site) -> None:
    script = Script(
        DescribeInstances=[listing(described("i-1"))],
        TerminateInstances=[done("TerminateInstances", "<instancesSet/>")],
    )
    (found,) = site.open(script).instances({})
    found.destroy()
    found.destroy()
    assert [each["InstanceId.1"] for each in site.words.asked("TerminateInstances")] == ["i-1"] * 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("InvalidInstanceID.NotFound"), InstanceNotFound),
        (refusal("RequestLimitExceeded"), RateLimitError),
        (HUNG_UP, AmbiguousResult),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_goes_wrong_with_ending_and_tags_is_told(
    site: Site, answer: Answer, error: type[CloudError]
) -> None:
    script = Script(
        DescribeInstances=[listing(described("i-1"))],
        TerminateInstances=[answer],
        CreateTags=[answer],
    )
    (found,) = site.open(script).instances({})
    for call in (found.destroy, lambda: found.set_tags({"a": "b"})):
        with pytest.raises(CloudError) as caught:
            call()
        assert type(caught.value) is error


def test_tags_are_set_on_what_is_there(site: Site) -> None:
    script = Script(DescribeInstances=[listing(described("i-1"))], CreateTags=[done("CreateTags")])
    (found,) = site.open(script).instances({})
    found.set_tags({"b": "2", "a": "1"})
    (sent,) = site.words.asked("CreateTags")
    pairs = [(sent[f"Tag.{number}.Key"], sent[f"Tag.{number}.Value"]) for number in (1, 2)]
    assert (sent["ResourceId.1"], pairs) == ("i-1", [("a", "1"), ("b", "2")])


@pytest.mark.parametrize(
    "answer", [listing(described("i-1", state="terminated")), listing()], ids=["ended", "forgotten"]
)
def test_tags_for_what_has_ended_are_for_nobody(site: Site, answer: Answer) -> None:
    script = Script(
        DescribeInstances=[listing(described("i-1")), answer], CreateTags=[done("CreateTags")]
    )
    (found,) = site.open(script).instances({})
    with pytest.raises(InstanceNotFound):
        found.set_tags({"a": "1"})


# ---- asking for one instance ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "existence"),
    [
        (listing(described("i-1", state="terminated")), Existence.GONE),
        (listing(described("i-1", state="running")), Existence.PRESENT),
        (listing(described("i-1", state="shutting-down")), Existence.PRESENT),
        (listing(described("i-1", state="stopped")), Existence.PRESENT),
        (listing(), Existence.UNKNOWN),
        (listing(described("i-2", state="terminated")), Existence.UNKNOWN),
        (refusal("InvalidInstanceID.NotFound"), Existence.UNKNOWN),
    ],
)
def test_only_what_it_calls_terminated_has_ended(
    site: Site, answer: Answer, existence: Existence
) -> None:
    asked = site.open(Script(DescribeInstances=[answer]))
    assert asked.find("i-1") == Found(existence=existence)
    (sent,) = site.words.asked("DescribeInstances")
    assert sent["InstanceId.1"] == "i-1"


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (
            "Client.InternalError",
            "Client.InternalError: Client error on launch",
            KMS_REASON,
        ),
        ("Server.ScheduledStop", "maintenance", "Server.ScheduledStop: maintenance"),
        ("Client.New", "", "Client.New"),
    ],
)
def test_why_an_instance_ended_or_stopped_is_told(
    site: Site, code: str, message: str, reason: str
) -> None:
    ended = listing(described("i-1", state="terminated", why=(code, message)))
    found = site.open(Script(DescribeInstances=[ended])).find("i-1")
    assert found == Found(existence=Existence.GONE, reason=reason)
    for state, power in (
        ("stopping", Power.STOPPING),
        ("stopped", Power.STOPPED),
        ("shutting-down", Power.ENDING),
    ):
        answer = listing(described("i-1", state=state, why=(code, message)))
        [instance] = site.open(Script(DescribeInstances=[answer])).instances({})
        assert isinstance(instance, TellsCondition)
        assert instance.condition == Condition(power=power, reason=reason)


def test_of_one_that_runs_or_will_no_reason_is_told(site: Site) -> None:
    for state in ("pending", "running"):
        answer = listing(described("i-1", state=state, why=("pending", "pending")))
        [instance] = site.open(Script(DescribeInstances=[answer])).instances({})
        assert isinstance(instance, TellsCondition)
        assert instance.condition == Condition(power=Power.ON)


def test_what_goes_wrong_with_the_question_is_raised(site: Site) -> None:
    throttled = refusal("RequestLimitExceeded", status=503)
    with pytest.raises(RateLimitError):
        site.open(Script(DescribeInstances=[throttled])).find("i-1")

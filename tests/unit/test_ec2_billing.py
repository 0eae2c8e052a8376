"""What EC2's descriptions tell of billing, by tables; and how bills are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from longshore.drivers.billing import Billed, BillingEnd, BillingStart, Bills, EndedBy, TellsBilling
from longshore.drivers.ec2.account import BILLS_PER_CALL
from longshore.drivers.ec2.billing import LONGEST_PENDING_S, billed_of
from longshore.drivers.errors import CloudError, RateLimitError
from tests.ec2_answers import Answer, Script, Site, described, listing, open_site, refusal

LAUNCHED = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
BEGUN = LAUNCHED.timestamp()
USER = "User initiated (2026-11-28 13:00:00 GMT)"
ZONE = "eu-test-1a"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


def told(
    state: str, *, transition: str = "", code: str = "", seen_s: float | None = 40.0
) -> Billed:
    words: dict[str, Any] = {
        "State": {"Name": state},
        "LaunchTime": LAUNCHED,
        "StateTransitionReason": transition,
        "Placement": {"AvailabilityZone": ZONE},
    }
    if code:
        words["StateReason"] = {"Code": code, "Message": f"{code}: so it is"}
    return billed_of(words, None if seen_s is None else BEGUN + seen_s)


def since_launch(slack_s: float = 40.0, **more: Any) -> Billed:
    return Billed(billed_from=BEGUN, from_slack_s=slack_s, zone=ZONE, **more)


def test_the_beginning_is_the_launch_or_so_much_later_until_it_was_seen_to_run() -> None:
    assert told("pending") == Billed(zone=ZONE)
    assert told("running") == since_launch()
    assert told("running", seen_s=-3.0) == since_launch(0.0)
    assert told("running", seen_s=86_400.0) == since_launch(LONGEST_PENDING_S)
    assert told("running", seen_s=None) == since_launch(LONGEST_PENDING_S)
    assert billed_of({"State": {"Name": "running"}}, BEGUN) == Billed()


@pytest.mark.parametrize("state", ["stopping", "stopped"])
def test_what_is_stopped_may_go_on(state: str) -> None:
    assert told(state, transition=USER, code="Client.UserInitiatedShutdown") == since_launch()


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
@pytest.mark.parametrize(
    ("transition", "code", "after_s", "by"),
    [
        (USER, "Client.UserInitiatedShutdown", 3600, EndedBy.REQUEST),
        (USER, "", 3600, EndedBy.REQUEST),
        (USER.replace("GMT", "UTC"), "", 3600, EndedBy.REQUEST),
        ("User initiated (2026-11-28 11:59:59 GMT)", "", 0, EndedBy.REQUEST),
        ("", "Client.InstanceInitiatedShutdown", None, EndedBy.ITSELF),
        (
            USER.replace("User", "Service"),
            "Server.SpotInstanceTermination",
            3600,
            EndedBy.RECLAIMED,
        ),
        ("", "Server.SpotInstanceShutdown", None, EndedBy.RECLAIMED),
        ("", "Server.ScheduledStop", None, EndedBy.FAILURE),
        ("", "", None, None),
        ("User initiated (yesterday)", "", None, EndedBy.REQUEST),
    ],
)
def test_the_end_is_told_where_ec2_says_when_and_who_by_its_code(
    state: str, transition: str, code: str, after_s: float | None, by: EndedBy | None
) -> None:
    ended = None if after_s is None else BEGUN + after_s
    slack_s = 40.0 if after_s is None else min(after_s, LONGEST_PENDING_S)
    expected = since_launch(slack_s, billed_until=ended, ended_by=by)
    assert told(state, transition=transition, code=code) == expected


@pytest.mark.parametrize(
    "code", ["Client.InternalError", "Server.InternalError", "Server.InsufficientInstanceCapacity"]
)
def test_what_fails_at_launch_was_never_billed(code: str) -> None:
    never = Billed(billed_from=BEGUN, billed_until=BEGUN, ended_by=EndedBy.FAILURE, zone=ZONE)
    assert told("terminated", code=code) == never


def test_listings_and_bills_tell_it_and_the_rule_is_that_of_aws(site: Site) -> None:
    when = ("2026-11-28T12:00:00.000Z", USER)
    over = described("i-2", state="shutting-down", when=when)
    instance_set = site.open(Script(DescribeInstances=[listing(described("i-1", when=when), over)]))
    running, ending = instance_set.instances({})
    assert isinstance(running, TellsBilling)
    assert isinstance(ending, TellsBilling)
    # The server's clock says when it answered, which is long before or after.
    assert (running.billed.billed_from, running.billed.billed_until) == (BEGUN, None)
    assert ending.billed.billed_until == BEGUN + 3600
    assert isinstance(instance_set, Bills)
    assert instance_set.bills(["i-2", "i-9"]) == {"i-2": ending.billed}
    rule = instance_set.billing_rule()
    assert (rule.starts, rule.ends) == (BillingStart.RUNNING, BillingEnd.SHUTTING_DOWN)
    assert (rule.unit_s, rule.minimum_s, rule.free_if_reclaimed_within_s) == (1, 60, 3600)


def test_bills_are_asked_for_by_filter_in_parts_and_on_all_pages(site: Site) -> None:
    def respond(action: str, asked: Mapping[str, str]) -> Answer:
        assert action == "DescribeInstances"
        wanted = [value for key, value in asked.items() if key.startswith("Filter.1.Value.")]
        first, *others = wanted
        if "NextToken" in asked or not others:
            return listing(*(described(each, state="terminated") for each in others[1:] or wanted))
        return listing(described(first), next_token="more")

    ids = [f"i-{number:03}" for number in range(BILLS_PER_CALL + 1)]
    instance_set = site.open(respond)
    told_of = instance_set.bills(ids)
    asked = site.words.asked("DescribeInstances")
    assert [each["Filter.1.Name"] for each in asked] == ["instance-id"] * 3
    assert not any(key.startswith("InstanceId") for each in asked for key in each)
    assert sorted(told_of) == [each for each in ids if each != ids[1]]
    assert instance_set.bills([]) == {}


def test_bills_that_fail_are_an_error_of_the_cloud(site: Site) -> None:
    limited = refusal("RequestLimitExceeded", status=503)
    with pytest.raises(RateLimitError):
        site.open(Script(DescribeInstances=[limited])).bills(["i-1"])
    with pytest.raises(CloudError):
        site.open(Script(DescribeInstances=[refusal("InternalError")])).bills(["i-1"])

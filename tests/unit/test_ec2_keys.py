"""Our public key as a key pair of the account: imported when it is missing, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest

from longshore.drivers.ec2.keys import is_same_key, key_name
from longshore.drivers.errors import (
    CloudAuthError,
    CloudError,
)
from tests.ec2_answers import (
    HUNG_UP,
    KEY,
    NO_KEY,
    OUR_KEY,
    Answer,
    Script,
    Site,
    create,
    described,
    done,
    key_pairs,
    launched,
    open_site,
    refusal,
)

FINGERPRINT = "8AcivKCtL5tHJlZpUzAgtvI1sAyickxFst2dF0ROCak="


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


# ---- the key pair ---------------------------------------------------------------------------


def test_a_key_is_imported_once_also_when_many_creates_come_together(site: Site) -> None:
    imported = threading.Event()
    made = launched(described("i-1"))

    def respond(action: str, _: Mapping[str, str]) -> Answer:
        if action == "DescribeKeyPairs":
            return OUR_KEY if imported.is_set() else NO_KEY
        if action == "ImportKeyPair":
            imported.set()
            return done(action)
        return made

    instance_set = site.open(respond)
    threads = [
        threading.Thread(target=create, args=(instance_set,), kwargs={"token": f"t-{number}"})
        for number in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(site.actions())[:2] == ["DescribeKeyPairs", "ImportKeyPair"]
    assert site.actions().count("RunInstances") == 5
    assert site.actions().count("ImportKeyPair") == 1


def test_a_key_that_another_dispatcher_imports_meanwhile_is_fine(site: Site) -> None:
    script = Script(
        DescribeKeyPairs=[NO_KEY, OUR_KEY],
        ImportKeyPair=[refusal("InvalidKeyPair.Duplicate")],
        RunInstances=[launched(described("i-1"))],
    )
    assert create(site.open(script)).id == "i-1"


def test_a_key_that_somebody_deletes_is_imported_again(site: Site) -> None:
    script = Script(
        DescribeKeyPairs=[OUR_KEY, NO_KEY],
        ImportKeyPair=[done("ImportKeyPair")],
        RunInstances=[NO_KEY, launched(described("i-1"))],
    )
    assert create(site.open(script)).id == "i-1"
    assert site.actions() == [
        "DescribeKeyPairs",
        "RunInstances",
        "DescribeKeyPairs",
        "ImportKeyPair",
        "RunInstances",
    ]


def test_a_key_pair_that_ec2_never_knows_is_not_asked_for_for_ever(site: Site) -> None:
    script = Script(RunInstances=[NO_KEY])
    with pytest.raises(CloudError, match="InvalidKeyPair"):
        create(site.open(script))
    assert site.actions().count("RunInstances") == 2


@pytest.mark.parametrize(
    "answers",
    [
        {"DescribeKeyPairs": [key_pairs(f"<publicKey>{KEY[:-1]}K</publicKey>")]},
        {
            "DescribeKeyPairs": [NO_KEY, key_pairs(f"<keyFingerprint>{'A' * 43}</keyFingerprint>")],
            "ImportKeyPair": [refusal("InvalidKeyPair.Duplicate")],
        },
    ],
    ids=["before", "meanwhile"],
)
def test_another_key_under_our_name_is_an_error(
    site: Site, answers: dict[str, list[Answer]]
) -> None:
    with pytest.raises(CloudError, match="holds another key: delete it"):
        create(site.open(Script(**answers)))
    assert "RunInstances" not in site.actions()


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({"DescribeKeyPairs": [HUNG_UP]}, CloudError),
        ({"DescribeKeyPairs": [NO_KEY], "ImportKeyPair": [HUNG_UP]}, CloudError),
        ({"DescribeKeyPairs": [refusal("UnauthorizedOperation")]}, CloudAuthError),
    ],
    ids=["asking", "importing", "forbidden"],
)
def test_trouble_with_the_key_leaves_no_doubt_about_an_instance(
    site: Site, answers: dict[str, list[Answer]], error: type[CloudError]
) -> None:
    with pytest.raises(CloudError) as caught:
        create(site.open(Script(**answers)))
    assert type(caught.value) is error


def test_without_key_import_no_key_is_asked_for(site: Site) -> None:
    script = Script(RunInstances=[launched(described("i-1"))])
    create(site.open(script, key_import=False))
    assert site.actions() == ["RunInstances"]
    assert "KeyName" not in site.words.asked("RunInstances")[0]


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ({"PublicKey": f"{KEY} somebody"}, True),
        ({"PublicKey": KEY.replace("AAAAC3", "AAAAD3")}, False),
        ({"KeyFingerprint": FINGERPRINT}, True),
        ({"KeyFingerprint": FINGERPRINT.rstrip("=")}, True),
        ({"KeyFingerprint": f"SHA256:{FINGERPRINT}"}, True),
        ({"KeyFingerprint": "A" * 43}, False),
        ({"KeyFingerprint": "1f:51:ae:28"}, True),
        ({}, True),
    ],
)
def test_keys_are_compared_by_what_ec2_tells(pair: dict[str, str], expected: bool) -> None:
    assert is_same_key(KEY, pair) is expected


def test_the_name_of_a_key_pair_is_made_of_the_key() -> None:
    assert key_name(KEY) == key_name(f"{KEY} a comment")
    assert key_name(KEY) != key_name(KEY.replace("AAAAIJ", "AAAAIK"))
    with pytest.raises(CloudError, match="TYPE BASE64"):
        key_name("nonsense")

"""What the names of EC2's types tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from longshore.drivers.ec2.families import Family, fault_of_type
from longshore.drivers.interface import Resources
from tests.ec2_answers import TYPE

STANDARD = "Standard (A, C, D, H, I, M, R, T, Z)"


@pytest.mark.parametrize(
    ("name", "family", "traits"),
    [
        ("a1.medium", "a1", ("arm64", False, False, STANDARD)),
        ("c5ad.large", "c5ad", ("x86_64", False, True, STANDARD)),
        ("c6gd.metal", "c6gd", ("arm64", False, True, STANDARD)),
        ("c7gn.16xlarge", "c7gn", ("arm64", False, False, STANDARD)),
        ("c7i-flex.large", "c7i-flex", ("x86_64", False, False, STANDARD)),
        ("d2.xlarge", "d2", ("x86_64", False, False, STANDARD)),
        ("d3en.xlarge", "d3en", ("x86_64", False, True, STANDARD)),
        ("dl1.24xlarge", "dl1", ("x86_64", False, False, "DL")),
        ("f1.2xlarge", "f1", ("x86_64", False, True, "F")),
        ("g4dn.xlarge", "g4dn", ("x86_64", True, True, "G and VT")),
        ("g5.xlarge", "g5", ("x86_64", True, True, "G and VT")),
        ("g5g.xlarge", "g5g", ("arm64", True, False, "G and VT")),
        ("gr6.4xlarge", "gr6", ("x86_64", True, True, "G and VT")),
        ("hpc7g.4xlarge", "hpc7g", ("arm64", False, False, "HPC")),
        ("i2.xlarge", "i2", ("x86_64", False, False, STANDARD)),
        ("i3en.large", "i3en", ("x86_64", False, True, STANDARD)),
        ("im4gn.large", "im4gn", ("arm64", False, True, STANDARD)),
        ("inf2.xlarge", "inf2", ("x86_64", False, False, "Inf")),
        ("is4gen.medium", "is4gen", ("arm64", False, True, STANDARD)),
        ("m5.large", "m5", ("x86_64", False, False, STANDARD)),
        ("m5.metal-24xl", "m5", ("x86_64", False, False, STANDARD)),
        ("p3.2xlarge", "p3", ("x86_64", True, False, "P")),
        ("p4d.24xlarge", "p4d", ("x86_64", True, True, "P")),
        ("p5en.48xlarge", "p5en", ("x86_64", True, True, "P")),
        ("p6e-gb200.36xlarge", "p6e-gb200", ("arm64", True, True, "P")),
        ("t2.micro", "t2", ("x86_64", False, False, STANDARD)),
        ("t4g.nano", "t4g", ("arm64", False, False, STANDARD)),
        ("trn1n.32xlarge", "trn1n", ("x86_64", False, True, "Trn")),
        ("u-6tb1.metal", "u-6tb1", ("x86_64", False, False, "High Memory")),
        ("u7in-16tb.224xlarge", "u7in-16tb", ("x86_64", False, False, "High Memory")),
        ("vt1.3xlarge", "vt1", ("x86_64", False, False, "G and VT")),
        ("x2idn.16xlarge", "x2idn", ("x86_64", False, True, "X")),
        ("z1d.large", "z1d", ("x86_64", False, True, STANDARD)),
        ("qq9.large", "qq9", ("x86_64", False, False, "QQ")),
    ],
)
def test_a_name_tells_what_the_driver_must_know(
    name: str, family: str, traits: tuple[str, bool, bool, str]
) -> None:
    found = Family.of(name)
    assert found is not None
    assert found.name == family
    group = found.quota_group(preemptible=False)
    assert (found.architecture, found.has_gpus, found.has_instance_store, group) == traits


def test_spot_instances_of_newer_generations_of_p_have_limits_of_their_own() -> None:
    groups = {}
    for name in ("p3.2xlarge", "p4d.24xlarge", "p5.48xlarge", "m5.large"):
        found = Family.of(name)
        assert found is not None
        groups[name] = found.quota_group(preemptible=True)
    assert groups == {
        "p3.2xlarge": "P",
        "p4d.24xlarge": "P",
        "p5.48xlarge": "P5",
        "m5.large": STANDARD,
    }


@pytest.mark.parametrize("name", ["", "large", "M5.large", "m5.", "m5.huge", "m5 large", "m5.l "])
def test_what_is_no_name_is_none(name: str) -> None:
    assert Family.of(name) is None


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"provider_type": "m5"}, "no name of an EC2 instance type"),
        ({"provider_type": "small"}, "set provider_type to one like m7i.large"),
        ({"provider_type": "mac2.metal"}, "dedicated hosts"),
        ({"resources": Resources(gpus=1)}, "set gpus to 0"),
        ({"resources": Resources(gpus=1), "provider_type": "g5.xlarge"}, None),
    ],
)
def test_types_that_cannot_be_created_are_told(changes: dict[str, Any], fault: str | None) -> None:
    told = fault_of_type(replace(TYPE, **changes))
    assert told == fault if fault is None else fault in (told or "")

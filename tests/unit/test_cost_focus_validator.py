"""The ledger as FOCUS 1.2, read by the FinOps Foundation's own validator; `make proofs` alone.

It needs Python 3.12 for one line, an f-string with a backslash in it. Where this is Python 3.11,
that line is written so that 3.11 reads it, and all else is as it was published. It is installed
with what it needs (old ones of what others here need new) into an environment of its own, which
pytest's cache keeps. It tells of failures on its output and ends with 0, so the output is read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from longshore.dispatcher.cost.focus import FocusVersion, write_focus
from tests.cost_samples import CONTEXT, many
from tests.sizes import sized
from tests.unit.test_cost_focus import MANDATORY_1_2

VERSION = "2.2.1"
RULES = "1.2.0.1"
NEEDS = (f"focus-validator=={VERSION}", "pyarrow<20")
FOR_3_12 = r"""f"'{k.replace('\"', '\"\"')}'" for k in ignore_keys"""
FOR_3_11 = """"'" + k.replace('"', '""') + "'" for k in ignore_keys"""

APPLICABLE = (
    *("ACCOUNT_NAMING_SUPPORTED", "AVAILABILITY_ZONE_SUPPORTED"),
    *("BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED", "MULTIPLE_PRICING_CATEGORIES_SUPPORTED"),
    *("NEGOTIATED_PRICING_SUPPORTED", "REGION_SUPPORTED", "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED"),
    *("TAGGING_SUPPORTED", "UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED"),
)
CONTRADICTED = {"InvoiceId-C-005-C"}
"""There is no invoice: it must be null by C-004 and must not be by C-005, and one is enough."""


def installed(home: Path) -> Path:
    """Return where the packages of the validator are, having made their environment if need be."""
    finished = home / "finished"
    packages = home / f"lib/python3.{sys.version_info.minor}/site-packages"
    if not finished.exists():
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin/python"), "-m", "pip", "install", "-q", "--ignore-requires-python"]
        subprocess.run([*pip, *NEEDS], check=True, timeout=600, stdin=subprocess.DEVNULL)
        if sys.version_info < (3, 12):
            source = packages / "focus_validator/config_objects/focus_to_duckdb_converter.py"
            text = source.read_text()
            assert text.count(FOR_3_12) == 1
            source.write_text(text.replace(FOR_3_12, FOR_3_11))
        finished.touch()
    return packages


def failed(packages: Path, home: Path, file: Path, *options: str) -> tuple[set[str], int]:
    """Return which rules a file breaks, and how many it keeps."""
    program = (str(home / "bin/focus-validator"), "--block-download", "--validate-version", RULES)
    done = subprocess.run(
        [*program, "--data-file", str(file), *options],
        cwd=packages,  # it looks for its currencies from there
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    total = re.search(r"^Total: \d+ \| Pass: (\d+) \| Fail: (\d+)", done.stdout, re.MULTILINE)
    assert total, done.stdout[-2000:] + done.stderr[-2000:]
    rules = set(re.findall(r"^\S+ (\S+): FAIL ", done.stdout, re.MULTILINE))
    assert len(rules) == int(total.group(2))
    return rules, int(total.group(1))


@pytest.mark.skipif(not sized(0, 1), reason="it installs a validator of its own: make proofs")
def test_the_validator_of_1_2_finds_nothing(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert request.config.cache is not None
    home = Path(request.config.cache.mkdir(f"focus-validator-{VERSION}"))
    packages = installed(home)
    file = tmp_path / "focus.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        write_focus(many(500), out, FocusVersion.V1_2, CONTEXT)
    rules, kept = failed(packages, home, file)
    assert (rules, kept > 120) == (CONTRADICTED, True)
    rules, kept = failed(packages, home, file, "--applicability-criteria", ",".join(APPLICABLE))
    assert (rules, kept > 220) == (CONTRADICTED, True)
    # It looks, though not at everything: that costs are prices times quantities it lets pass in
    # any case, and `test_cost_focus.py` tries that.
    file.write_text(file.read_text().replace(",USD,", ",Taler,", 1))
    assert "BillingCurrency-C-003-M" in failed(packages, home, file)[0]
    assert mandatory(packages) == MANDATORY_1_2


def mandatory(packages: Path) -> set[str]:
    """Return the columns that its rules want in every file."""
    text = packages.joinpath(f"focus_validator/rules/model-{RULES}.json").read_text()
    found = set()
    for rule in json.loads(text)["ModelRules"].values():
        wanted = rule["ValidationCriteria"]
        match = re.match(r"(\w+) MUST be present", wanted["MustSatisfy"])
        if match and rule["EntityType"] == "Dataset" and not rule["ApplicabilityCriteria"]:
            found.add(match.group(1))
    return found

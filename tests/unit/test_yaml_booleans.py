"""Words that YAML 1.1 takes for booleans mean themselves, in job files and the configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dispatcher.api.limits import ApiLimits, Defaults
from dispatcher.api.requests import SubmissionDecoder
from dispatcher.cli.submission import read_files
from dispatcher.config.file import read_mapping

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
TEXT = "on: [yes, no, off, y, true, False]\nno: On\n"
MEANT = {"on": ["yes", "no", "off", "y", True, False], "no": "On"}


def test_only_true_and_false_are_booleans(tmp_path: Path) -> None:
    path = tmp_path / "some.yml"
    path.write_text(TEXT, encoding="utf-8")
    assert read_files([str(path)]) == MEANT
    assert read_mapping(path) == MEANT


def test_the_retries_of_the_documentation_can_be_submitted_from_a_file(tmp_path: Path) -> None:
    line = re.search(r"in a file `(retries: [^`]*)`", OPERATIONS.read_text(encoding="utf-8"))
    assert line is not None
    path = tmp_path / "job.yml"
    path.write_text(f"command: [a]\nimage: busybox\n{line[1]}\n", encoding="utf-8")
    decoder = SubmissionDecoder(limits=ApiLimits(), defaults=Defaults(), instance_type_names=())
    item = decoder.decode(json.dumps(read_files([str(path)])).encode()).items[0]
    assert item.spec.retries.most == 3
    assert item.spec.retries.on == ("out_of_memory",)

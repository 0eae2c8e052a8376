"""Lets Schemathesis make requests from the OpenAPI document, and hold the answers to it.

`python -m tests.schema.run` starts a real server whose instances never boot and tries each
operation, with what the document allows and with what it does not, then chains of operations that
an answer's `Location` links; `--examples N` says how many cases of each kind. No answer may be a
5xx, of a status or of a type that the document does not tell, or of another shape; and what the
document forbids must be refused.

Left out: that all that the document allows is taken, since much of what may be wrong with a request
is beyond a schema (a name that there is not); that a token is asked for, since this server is open,
and `tests/unit/test_access_table.py` asks all of them; and the stream of events, which never ends.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure
from schemathesis.engine import events, from_schema

from tests.dispatcher_process import DispatcherProcess

EXAMPLES = 60
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
)
CONFIG: dict[str, Any] = {
    "driver": {"name": "simulated", "parameters": {"boot_time_s": 3600, "quota": 1}},
    "instance_types": {
        "small": {"provider_type": "s", "cpus": 1, "memory": "2GiB", "price_per_hour": 0.05},
    },
    "engine": {"name": "process"},
    "scheduler": {"max_instances": 1},
    "auth": {"requests_per_s": 100_000, "burst": 100_000},
}
_STREAM = "/v1/events"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was tried: cases by operation, answers by status, and what was wrong, each once."""

    cases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: dict[str, str] = field(default_factory=dict)

    def told(self) -> str:
        """Return it in a few lines."""
        answered = ", ".join(f"{each}: {self.statuses[each]}" for each in sorted(self.statuses))
        lines = [f"{self.cases.total()} cases of {len(self.cases)} operations, answered {answered}"]
        return "\n".join([*lines, *(self.wrong[key] for key in sorted(self.wrong))])


def document_of(url: str) -> dict[str, Any]:
    """Return the document of the server at `url`."""
    answer = requests.get(f"{url}/openapi.json", timeout=30)
    answer.raise_for_status()
    return dict(answer.json())


def tried(
    url: str,
    document: dict[str, Any],
    *,
    examples: int,
    seed: int,
    chains: bool,
    paths: Sequence[str] = (),
) -> Outcome:
    """Return what Schemathesis finds on the open server at `url`, going by `document`.

    `examples` bounds the cases of each operation and kind; the cases that follow from the document
    alone (bounds, forbidden values) come on top. With `chains`, operations are tried in sequence.
    Of some `paths`, () for all.
    """
    config = SchemathesisConfig.from_dict({"base-url": url, **_config(examples, seed, chains)})
    schema = schemathesis.openapi.from_dict(document, config=config)
    wanted = schema.exclude(path=_STREAM)
    if paths:
        wanted = wanted.exclude(lambda one: one.operation.path not in paths)
    outcome = Outcome()
    for event in from_schema(wanted).execute():
        match event:
            case events.ScenarioFinished():
                _note(outcome, event)
            case events.NonFatalError() | events.FatalError():
                error = getattr(event, "value", None) or getattr(event, "exception", None)
                where = getattr(event, "label", "the run")
                outcome.wrong[f"error of {where}"] = f"{where}: {error!r}"
    return outcome


def _config(examples: int, seed: int, chains: bool) -> dict[str, Any]:
    return {
        "seed": seed,
        "continue-on-failure": True,
        "request-timeout": 30,
        "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
        "generation": {"mode": "all", "max-examples": examples, "no-shrink": True},
        "phases": {"stateful": {"enabled": chains}},
        "operations": [
            {
                # A log that is followed does not end before its container does.
                "include-path": "/v1/containers/{id}/logs",
                "parameters": {"query.follow": "false"},
            }
        ],
    }


def _note(outcome: Outcome, event: events.ScenarioFinished) -> None:
    recorder = event.recorder
    for case_id, node in recorder.cases.items():
        interaction = recorder.interactions.get(case_id)
        if interaction is None or interaction.response is None:
            continue
        outcome.cases[node.value.operation.label] += 1
        outcome.statuses[interaction.response.status_code] += 1
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is None:
                continue
            failure: Failure = check.failure_info.failure
            label = recorder.cases[case_id].value.operation.label
            key = f"{label} {check.name} {failure.title}"
            said = f"{key}: {failure.message}\n  {check.failure_info.code_sample}"
            outcome.wrong.setdefault(key, said)


def main(arguments: Sequence[str]) -> int:
    """Try a server of one's own; print what was tried and found, return 1 if anything was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(prefix="schema-") as directory,
        DispatcherProcess(Path(directory), CONFIG) as server,
    ):
        document = document_of(server.url)
        outcome = tried(server.url, document, examples=given.examples, seed=given.seed, chains=True)
    sys.stdout.write(f"{outcome.told()}\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

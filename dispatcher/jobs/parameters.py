"""What parameterised jobs are dispatched with: names, values, and the environment that comes of it.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from longshore.dispatcher.input.problems import Problems, member, quoted
from longshore.dispatcher.jobs.terms import Parameters

PARAMETERS_MOST = 100
VALUES_MOST_BYTES = 64 * 2**10
"""How long all parameters of one run may be as JSON, in a container's environment."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NAME_RULE = "use 1 to 64 letters, digits and underscores, no digit first"
_PREFIX = "LONGSHORE_PARAMETER_"


def environment_of(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in which a run finds its parameters."""
    return {f"{_PREFIX}{name.upper()}": value for name, value in values.items()}


def check_names(names: Iterable[tuple[str, str]], path: str, problems: Problems) -> None:
    """Add what is wrong with the parameters of a job, given as pairs of a place and a name."""
    first: dict[str, str] = {}
    given = list(names)
    if len(given) > PARAMETERS_MOST:
        problems.add(path, f"has {len(given)} parameters: give at most {PARAMETERS_MOST}")
        return
    for place, name in given:
        variable = name.upper()
        if not _NAME.fullmatch(name):
            problems.add(place, f"{quoted(name)} is not a parameter's name: {_NAME_RULE}")
        elif variable in first:
            problems.add(
                place,
                f"{quoted(name)} would be {_PREFIX}{variable}, as {first[variable]} is:"
                " leave one of them out",
            )
        else:
            first[variable] = place


def check_values(values: Mapping[str, str], path: str, problems: Problems) -> None:
    """Add what is wrong with the values of parameters."""
    for name, value in values.items():
        if "\0" in value:
            problems.add(member(path, name), "contains a NUL byte: no program can get one")
    size = len(json.dumps(environment_of(values)))
    if size > VALUES_MOST_BYTES:
        problems.add(
            path,
            f"are {size} bytes as JSON, at most {VALUES_MOST_BYTES} are allowed: pass a file"
            " instead",
        )


def given_values(
    parameters: Parameters, given: Mapping[str, str], path: str, problems: Problems
) -> dict[str, str]:
    """Return the values of all parameters of a run, by name; adds what is wrong to `problems`."""
    optional = dict(parameters.optional)
    known = {*parameters.required, *optional}
    for name in parameters.required:
        if name not in given:
            problems.add(member(path, name), "is missing: the job cannot run without it")
    for name in given:
        if name not in known:
            hint = problems.hint(name, known)
            problems.add(member(path, name), f"is not a parameter of this job: {hint}")
    values = {name: value for name, value in {**optional, **given}.items() if name in known}
    check_values(values, path, problems)
    return dict(sorted(values.items()))

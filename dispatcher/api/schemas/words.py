"""What other systems call what jobs and containers say, and what they have that we do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

OF_THE_WHOLE: Mapping[str, str] = {
    **dict.fromkeys(("namespace", "account", "tenant"), "project"),
    **dict.fromkeys(("qos", "nice", "priorityClassName", "schedulingPriorityOverride"), "priority"),
    **dict.fromkeys(("queue", "jobQueue"), "priority, project or constraints"),
    "jobName": "name",
}
"""Where the words of others belong that are said once, of a job or of a container in none."""

WORDS_FOR_ARRAYS: Mapping[str, str] = {
    **dict.fromkeys(("count", "replicas", "completions", "arrayProperties"), "array"),
    **dict.fromkeys(
        ("max_running", "parallelism", "concurrency"), "array: {size: N, max_running: M}"
    ),
}
"""How others say how many of a kind there are, and how many of them run at once."""

WORDS_FOR_RUNS: Mapping[str, str] = {
    **dict.fromkeys(("schedule", "cron"), "periodic"),
    **dict.fromkeys(("parameters", "params"), "parameterized"),
}
"""How others say when a job begins again, and with which values."""

_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(
        ("volumes", "volumeMounts", "mounts", "mountPoints", "binds"),
        "engine.arguments of the server's configuration mounts for all that have an image",
    ),
    **dict.fromkeys(
        ("secret", "envFrom", "vault", "template", "secretVariables"),
        "name them in secrets: [{name: db, env: DB_PASSWORD}]",
    ),
    **dict.fromkeys(
        ("output", "error", "stdout", "stderr", "log", "log_file", "logConfiguration"),
        "'longshore logs ID' has what it writes, or let the command write into a file",
    ),
    **dict.fromkeys(
        ("workdir", "work_dir", "working_dir", "workingDir", "chdir", "cwd"),
        "change there first: command: [sh, -c, 'cd /data && exec ./train']",
    ),
    **dict.fromkeys(
        ("ports", "network", "networkMode", "hostNetwork"),
        "engine.arguments of the server's configuration says it for all that have an image",
    ),
    **dict.fromkeys(
        ("mail", "mail_type", "mail_user", "email", "notify"),
        "send it when 'longshore wait ID' ends",
    ),
    **dict.fromkeys(
        ("nodes", "ntasks", "ntasks_per_node", "num_nodes", "mpi"),
        "a container is on one instance, and those of a job of type elastic run side by side",
    ),
    **dict.fromkeys(
        ("user", "run_as"),
        "engine.run_as of the server's configuration says it for all without an image",
    ),
    **dict.fromkeys(
        ("module", "modules"), "load them first: command: [bash, -lc, 'module load cuda && ./a']"
    ),
    **dict.fromkeys(
        ("ttl", "ttl_s", "ttlSecondsAfterFinished"), "what has ended stays in the listings"
    ),
    **dict.fromkeys(
        ("max_fails", "max_failures", "maxFailedIndexes", "fail_fast"),
        "what does not wait for others goes on when they fail, until 'longshore cancel ID'",
    ),
    **dict.fromkeys(
        ("hold", "held", "suspend"), "'longshore hold ID' holds a job, priority: 0 what it starts"
    ),
    "signal": "it gets TERM, and grace_period_s later KILL",
    "crash_limit": "scheduler.max_lost_attempts of the server's configuration counts for all",
}

NOTHING_LIKE: Mapping[str, str] = {
    **{word: f"Longshore has nothing like it; {what}" for word, what in _INSTEAD.items()},
    **dict.fromkeys(
        ("apiVersion", "kind", "metadata", "spec", "containerOverrides", "jobDefinition"),
        "this is how another system has it, docs/jobs.md tells what to write here",
    ),
}
"""Sentences on what has no equivalent here, by the word of others."""


def elsewhere(fields: Iterable[str], words: Mapping[str, str], place: str) -> dict[str, str]:
    """Return sentences that send `fields`, and what others call them, to another place."""
    named = {**words, **{each: each for each in fields}}
    return {word: f"say {name} {place}" for word, name in named.items()}


def in_order(words: Any, description: str) -> msgspec.Meta:
    """Return what is said of a field that takes one of `words`, a `Literal`.

    The problem with a wrong one names them as they stand there; msgspec itself, by the alphabet.
    """
    return msgspec.Meta(description=description, extra={"choices": get_args(words)})

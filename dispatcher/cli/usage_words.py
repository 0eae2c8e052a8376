"""What an attempt really took, in words; what nobody could measure is not mentioned.

Stands alone: `show` is one command of several that say what was used.
"""

from __future__ import annotations

from longshore.dispatcher.api.schemas.containers import AttemptAnswer
from longshore.dispatcher.cli import output, times


def usage_fields(attempt: AttemptAnswer | None) -> list[tuple[str, str]]:
    """Return what `show` tells of what an attempt took, as names and values."""
    used = None if attempt is None else attempt.usage
    if attempt is None or used is None:
        return []
    ran_s = times.span_s(attempt.started_at, attempt.finished_at)
    return [
        ("memory used", _peak_and_mean(used.peak_memory_bytes, used.mean_memory_bytes)),
        ("cpu time", cpu_time(used.cpu_seconds, ran_s)),
        ("read from disk", amount(used.read_bytes)),
        ("written to disk", amount(used.written_bytes)),
        ("gpu memory used", _peak_and_mean(used.gpu_peak_memory_bytes, None)),
        ("gpu utilization", percent(used.gpu_mean_utilization)),
    ]


def cpu_time(cpu_seconds: float | None, ran_s: float | None) -> str:
    """Return the time of all processors, and how many that were on average; "" for unknown."""
    if cpu_seconds is None:
        return ""
    shown = f"{cpu_seconds:.2f}s" if cpu_seconds < 60 else output.duration(cpu_seconds)
    return f"{shown} ({cpu_seconds / ran_s:.2f} cpus on average)" if ran_s else shown


def percent(part: float | None) -> str:
    """Return a part of 1 in percent, "" for unknown."""
    return "" if part is None else f"{part:.0%}"


def _peak_and_mean(peak_bytes: int | None, mean_bytes: int | None) -> str:
    peak = "" if peak_bytes is None else f"{amount(peak_bytes)} at the peak"
    mean = "" if mean_bytes is None else f"{amount(mean_bytes)} on average"
    return ", ".join(part for part in (peak, mean) if part)


def amount(amount_bytes: int | None) -> str:
    """Return a number of bytes, "" for unknown: that is not none."""
    return "" if amount_bytes is None else output.size(amount_bytes) or "0B"

"""Quantities as people write them: sizes, cpus, prices; exact, bounded, told with a remedy."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from longshore.dispatcher.input.problems import described, quoted

SIZE_MAX_BYTES = 2**60
PRIORITY_MAX = 1000
#: Over all of its tasks.
JOB_CONTAINERS_MAX = 100_000
CPUS_MAX = 10_000
PRICE_MAX_USD_PER_HOUR = 1_000_000
#: Less memory starts no program: whoever writes less has left out the unit.
MEMORY_MIN_BYTES = 4 * 2**20

_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?) ?([A-Za-z]{0,3})")
_SIZE_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgtp", start=1):
    _SIZE_UNITS[f"{_letter}b"] = 1000**_power
    _SIZE_UNITS[f"{_letter}i"] = _SIZE_UNITS[f"{_letter}ib"] = 1024**_power
_SIZE_REMEDY = 'write a number of bytes, or a text like "512MB" (decimal) or "4GiB" (binary)'


class Size(int):
    """A number of bytes that is written as a whole number or as a text like "4GiB"."""


class CpuMillis(int):
    """Thousandths of a cpu, written as a number of cpus with at most three decimals."""


class Price(Decimal):
    """US dollars an hour, written as a number, exact to the digit."""


def parse_size(value: object) -> int:
    """Return the number of bytes that a size means.

    `value` is a whole number of bytes or a text with a unit (KB, MB, ... are powers of 1000; KiB,
    MiB, ... or Ki, Mi, ... powers of 1024; one space before the unit is allowed; a fraction of a
    byte is rounded up). Raises `ValueError` with a sentence for anything else, for what is below 0
    and for what is above 2**60.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        sentence = f"must be a size, not {described(value)}: {_SIZE_REMEDY}"
        raise ValueError(sentence)  # noqa: TRY004 - callers handle one kind of error
    size = _size_from_text(value.strip()) if isinstance(value, str) else value
    if size < 0:
        raise ValueError(f"must not be negative: {_SIZE_REMEDY}")
    if size > SIZE_MAX_BYTES:
        raise ValueError("is larger than any machine: at most 1024PiB (2**60 bytes) is allowed")
    return size


def memory_problem(size_bytes: int | None) -> str:
    """Return what is wrong with an amount of memory, "" for nothing; 0 and None ask for none.

    A number without a unit is bytes here, and megabytes to Slurm, Nomad and AWS Batch.
    """
    if not size_bytes or size_bytes >= MEMORY_MIN_BYTES:
        return ""
    meant = f": write {size_bytes}MiB if that is what you mean" if size_bytes >= 4 else ""
    return (
        f"is {size_bytes} bytes, too little to start anything (at least"
        f" {MEMORY_MIN_BYTES // 2**20}MiB){meant}"
    )


def _size_from_text(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{quoted(text)} is not a size: {_SIZE_REMEDY}")
    number, unit = match.group(1), match.group(2).lower()
    if unit in _SIZE_UNITS:
        return math.ceil(Fraction(number) * _SIZE_UNITS[unit])
    letter = unit.upper()
    if f"{unit}ib" in _SIZE_UNITS:
        raise ValueError(
            f"{quoted(text)} is ambiguous: write {number}{letter}B (powers of 1000) or"
            f" {number}{letter}iB (powers of 1024)"
        )
    raise ValueError(f"{quoted(text)} is not a size: {_SIZE_REMEDY}")


def parse_cpus(value: object) -> int:
    """Return the thousandths of a cpu that a number of cpus means.

    Raises `ValueError` with a sentence for anything but a number from 0 to 10000 with at most
    three decimals.
    """
    number = _number(value, "a number of cpus like 2 or 0.5")
    if not 0 <= number <= CPUS_MAX:
        raise ValueError(f"must be from 0 to {CPUS_MAX} cpus, not {described(value)}")
    millis = number * 1000
    if millis != millis.to_integral_value():
        raise ValueError(f"must have at most three decimals, not {described(value)}")
    return int(millis)


def parse_price(value: object) -> Decimal:
    """Return the US dollars an hour that a number means, without the noise of binary fractions.

    Raises `ValueError` with a sentence for anything but a number from 0 to 1000000.
    """
    number = _number(value, "a price in US dollars an hour like 0.34")
    if not 0 <= number <= PRICE_MAX_USD_PER_HOUR:
        limit = PRICE_MAX_USD_PER_HOUR
        raise ValueError(f"must be from 0 to {limit} US dollars an hour, not {described(value)}")
    return number


def _number(value: object, wanted: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        sentence = f"must be {wanted}, not {described(value)}"
        raise ValueError(sentence)  # noqa: TRY004 - callers handle one kind of error
    if isinstance(value, int) and value.bit_length() > 64:
        raise ValueError(f"must be {wanted}, not a number that large")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"must be {wanted}, not {described(value)}")
    return number


def decode_quantity(wanted: type, value: object) -> object:
    """Decode `Size`, `CpuMillis` and `Price` for msgspec; raises `ValueError` with a sentence."""
    if wanted is Size:
        return Size(parse_size(value))
    if wanted is CpuMillis:
        return CpuMillis(parse_cpus(value))
    if wanted is Price:
        return Price(parse_price(value))
    # That is how a hook of msgspec's says that a type is not its own.
    raise NotImplementedError(f"no parser for {wanted.__name__}")

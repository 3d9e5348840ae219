"""Durations and times in the formats of Kafka's tools: ISO 8601, ``P1DT2H30M``, ``PT0.5S``, ``2026-11-21T06:00Z``."""

import re
from datetime import UTC, datetime

import click

from kafka_zk.base.integers import NATURAL_INT64, decimal_integer

_DURATION = re.compile(
    r"P(?:(?P<days>[0-9]{1,6})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,6})H)?(?:(?P<minutes>[0-9]{1,6})M)?(?:(?P<seconds>[0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def parse_duration_ms(text: str) -> int:
    """Raises UsageError."""
    matched = _DURATION.fullmatch(text)
    given = {unit: value for unit, value in matched.groupdict().items() if value is not None} if matched else {}
    if not given:
        raise click.UsageError(f"{text!r} is not a duration such as P1D, PT2H30M or PT0.5S")
    return round(sum(float(value) * _MS[unit] for unit, value in given.items()))


def parse_time_ms(text: str) -> int:
    """Parse milliseconds since the epoch, or an ISO 8601 time (local without a zone). Raises UsageError."""
    number = decimal_integer(text, NATURAL_INT64)
    if number is not None:
        return number
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.UsageError(f"{text!r} is neither milliseconds nor a time like 2026-11-21T06:00Z") from None


def time_text(time_ms: int) -> str:
    """A time as ``parse_time_ms`` reads it: ISO 8601 in UTC, without milliseconds; milliseconds after the year 9999."""
    try:
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return str(time_ms)
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"

"""``--partition-by``: columns, and transforms of them with Iceberg's names.

    carrier   years(timestamp)   months(timestamp)   days(timestamp)   hours(timestamp)   bucket(16, key)

Iceberg tables have such transforms. Folders and Delta tables get a text column, as in ``timestamp_day=2026-11-23``,
also in UTC. Only Iceberg has ``bucket``.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import ICEBERG

_TIMES = {
    "years": r"^[+-]?\d+",
    "months": r"^[+-]?\d+-\d\d",
    "days": r"^[+-]?\d+-\d\d-\d\d",
    "hours": r"^[+-]?\d+-\d\d-\d\d-\d\d",
}
"""Format of each unit of a UTC time, as text."""
_EPOCH = "timestamp_ntz'1970-01-01 00:00:00'"
_TERM = re.compile(r"(?P<name>[a-z]+)\((?:(?P<buckets>[1-9][0-9]*)\s*,\s*)?(?P<column>[^(),]+)\)")


class Transform(NamedTuple):
    """A term of ``--partition-by`` such as ``days(timestamp)``. ``buckets``: only of ``bucket``, otherwise None."""

    name: str
    column: str
    buckets: int | None

    @property
    def derived(self) -> str:
        return f"{self.column}_{self.name.removesuffix('s')}"


def transform(term: str) -> Transform | None:
    """The transform that a term names; None for a plain column. Raises WronglyAsked."""
    if "(" not in term:
        return None
    found = _TERM.fullmatch(term.strip())
    known = found is not None and (found["name"] in _TIMES if found["buckets"] is None else found["name"] == "bucket")
    if found is None or not known:
        raise WronglyAsked(
            f"--partition-by: {term!r} is neither a column nor {', '.join(_TIMES)}(COLUMN), bucket(N, COLUMN)"
        )
    return Transform(found["name"], found["column"].strip(), int(found["buckets"]) if found["buckets"] else None)


def plain(terms: Sequence[str]) -> tuple[str, ...]:
    return tuple(term for term in terms if transform(term) is None)


def check(terms: Sequence[str], format: str) -> None:
    """Raises: WronglyAsked."""
    seen: set[Transform] = set()
    for term in terms:
        asked = transform(term)
        if asked in seen:
            raise WronglyAsked(f"--partition-by: {asked.name}({asked.column}) is listed twice")
        if asked is not None:
            seen.add(asked)
        if asked is not None and asked.buckets is not None and format != ICEBERG:
            raise WronglyAsked(f"--partition-by: {term}: only --format {ICEBERG} supports buckets")


def check_columns(terms: Sequence[str], schema: Any) -> None:
    """``schema``: a ``StructType``. Raises WronglyAsked."""
    types = {field.name: field.dataType.typeName() for field in schema}
    for asked in filter(None, map(transform, terms)):
        if asked.column not in types:
            raise WronglyAsked(f"--partition-by: there is no column {asked.column}, only {', '.join(types)}")
        if asked.buckets is None and types[asked.column] not in ("timestamp", "timestamp_ntz", "date"):
            kind = types[asked.column]
            raise WronglyAsked(f"--partition-by: {asked.name} needs a time, and {asked.column} is {kind}")
        if asked.buckets is None and asked.derived in types:
            raise WronglyAsked(f"--partition-by: there is already a column {asked.derived}")


def columns(terms: Sequence[str]) -> list[str]:
    return [term if (asked := transform(term)) is None else asked.derived for term in terms]


def with_columns(frame: Any, terms: Sequence[str]) -> Any:
    """Add the text columns of the transforms."""
    from pyspark.sql import functions as f

    types = {field.name: field.dataType.typeName() for field in frame.schema}
    for asked in filter(None, map(transform, terms)):
        time = f.col(f"`{asked.column}`")
        if types[asked.column] == "timestamp":  # not via the session's time zone, which skips hours
            seconds = f.unix_micros(time).cast("decimal(20,0)") / 1_000_000
            time = f.expr(_EPOCH) + f.make_dt_interval(f.lit(0), f.lit(0), f.lit(0), seconds)
        text = f.replace(time.cast("timestamp_ntz").cast("string"), f.lit(" "), f.lit("-"))
        frame = frame.withColumn(asked.derived, f.regexp_extract(text, _TIMES[asked.name], 0))
    return frame


def iceberg_terms(terms: Sequence[str]) -> list[Any]:
    from pyspark.sql import functions as f
    from pyspark.sql.functions import partitioning

    made: list[Any] = []
    for term in terms:
        asked = transform(term)
        if asked is None:
            made.append(f.col(term))
        elif asked.buckets is not None:
            made.append(partitioning.bucket(asked.buckets, asked.column))
        else:
            made.append(getattr(partitioning, asked.name)(asked.column))
    return made

"""Values that --decode cannot decode: what may be asked for, what was counted, and when it is a failure.

Tests: tests/spark_jobs/extraction/test_undecodable.py.
"""

from typing import NamedTuple

FAIL, NULL, KEEP = "fail", "null", "keep"
CHOICES = (FAIL, NULL, KEEP)
RAW_VALUE = "raw_value"
"""The column that holds the values that were kept; null where the value was decoded."""
_MEANING = {"json": "JSON of the schema", "avro": "Avro of the schema", "string": "UTF-8 text"}


class Staged(NamedTuple):
    """What was written to a staging folder. ``values`` are the records that have a value; ``first`` is where the first
    undecodable one lies."""

    records: int
    values: int = 0
    undecodable: int = 0
    first: str = ""


NOTHING_STAGED = Staged(0)


def refusal(staged: Staged, decode: str | None, on_undecodable: str) -> str | None:
    """Why what was staged must not be published, in a sentence; None if it may be."""
    if decode is None or not staged.undecodable:
        return None
    meaning = _MEANING[decode]
    if staged.undecodable == staged.values:
        return (
            f"none of the {staged.values:,} values is {meaning} (the first is at {staged.first}), so nothing was "
            "published: --decode or --schema is not that of the topic"
        )
    if on_undecodable == FAIL:
        return (
            f"{staged.undecodable:,} of {staged.values:,} values are not {meaning} (the first is at {staged.first}), "
            f"so nothing was published: --on-undecodable {NULL} or {KEEP} extracts them"
        )
    return None

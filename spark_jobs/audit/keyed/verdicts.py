"""Judges the table's row of a key by the key's last event. Pure.

    event                    row                              outcome
    upsert                   absent                           MISSING
    upsert                   equal, as far as compared        AGREES
    upsert                   differs, of an older event       OUTDATED
    upsert                   differs, of this event           ALTERED
    delete, or older than    absent                           AGREES
    the truncate             present                          REMAINS
    any                      of a newer event                 AHEAD
    upsert, then delete, of a deferred key                    SHIFTED
    events without an order                                   UNORDERED

The event that wrote a row is known from the position that ``extract --cdc`` stores in the table. If the table has no
positions, values decide, and a row that differs is OUTDATED.

If a row shows an event, the event was consumed, and so were all earlier events of its partition. Such an event is
*evidence*. Events after the last evidence may not have been consumed yet. For these, MISSING, REMAINS and OUTDATED mean
that the consumer is behind. An event that may have changed nothing (a delete, a repeat, a row with placeholders) is not
evidence. A row that contains the placeholder itself differs.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.audit.keyed.events import is_shift
from kafka_zk.spark_jobs.audit.keyed.values import compare
from kafka_zk.spark_jobs.cdc.changes import Change
from kafka_zk.spark_jobs.cdc.placeholders import is_placeholder
from kafka_zk.spark_jobs.cdc.stored_states import change_of

Order = Sequence[int]
"""A position in the database, or the offset alone."""


class Outcome(Enum):
    AGREES = "agrees"
    MISSING = "missing"
    OUTDATED = "outdated"
    ALTERED = "altered"
    REMAINS = "remains"
    AHEAD = "ahead"
    SHIFTED = "shifted"
    UNORDERED = "unordered"


MAY_BE_BEHIND = (Outcome.MISSING, Outcome.OUTDATED, Outcome.REMAINS)


class LastEvent(NamedTuple):
    """``content``: the change as a string. ``first_offset``: the first offset at which the key had this content; None
    if that was in several partitions. ``is_ordered``: False if events of the key have no common order. ``moved``,
    ``taken``: the column ``moved`` of this event and of the key's newest upsert, as ``is_shift`` compares them.
    """

    partition: int
    offset: int
    rank: Order
    content: str
    is_delete: bool
    first_offset: int | None
    is_ordered: bool = True
    moved: str | None = None
    taken: str | None = None


class Row(NamedTuple):
    """``rank``: the rank of the event that wrote the row; None if the table does not store it."""

    columns: Mapping[str, Any]
    rank: Order | None


class Truncate(NamedTuple):
    rank: Order
    partition: int
    offset: int


class Verdict(NamedTuple):
    """``partition``, ``offset``: where the deciding event is. ``evidence``: an offset of this partition that was
    consumed. ``said``: a remark about the row. ``unlike``: sentences about columns that could not be compared.
    ``compared``: the event's columns; None if the event was not compared with a row.
    """

    outcome: Outcome
    partition: int
    offset: int
    evidence: int | None = None
    said: str = ""
    unlike: tuple[str, ...] = ()
    compared: tuple[str, ...] | None = None


def judge(last: LastEvent, row: Row | None, truncate: Truncate | None) -> Verdict:
    """``truncate``: the newest truncate in the topic."""
    if not last.is_ordered:
        return Verdict(Outcome.UNORDERED, last.partition, last.offset)
    if last.is_delete and is_shift(last.moved, last.taken):
        return Verdict(Outcome.SHIFTED, last.partition, last.offset)
    if last.is_delete:
        return _of_deleted((last.partition, last.offset), last.rank, row)
    if truncate is not None and list(last.rank) <= list(truncate.rank):
        return _of_deleted((truncate.partition, truncate.offset), truncate.rank, row)
    return _of_living(last, row)


def _of_deleted(place: tuple[int, int], rank: Order, row: Row | None) -> Verdict:
    if row is None:
        return Verdict(Outcome.AGREES, *place)
    if _is_newer(row.rank, rank):
        return Verdict(Outcome.AHEAD, *place, said=_at(row.rank))
    return Verdict(Outcome.REMAINS, *place, said=_at(row.rank))


def _of_living(last: LastEvent, row: Row | None) -> Verdict:
    place = (last.partition, last.offset)
    if row is None:
        return Verdict(Outcome.MISSING, *place)
    if _is_newer(row.rank, last.rank):
        return Verdict(Outcome.AHEAD, *place, said=_at(row.rank))
    change = change_of(last.content)
    differing, unlike = map(tuple, compare(change.columns, row.columns))
    differing += tuple(name for name in sorted(change.placeholders) if is_placeholder(row.columns[name]))
    return _of_values(last, row, change, differing, unlike)._replace(compared=tuple(change.columns))


def _of_values(
    last: LastEvent, row: Row, change: Change, differing: tuple[str, ...], unlike: tuple[str, ...]
) -> Verdict:  # fmt: skip
    place = (last.partition, last.offset)
    is_of_event = row.rank is not None and list(row.rank) == list(last.rank)
    evidence = last.first_offset
    if differing:
        said = f"it differs in {', '.join(differing)}"
        if is_of_event:
            return Verdict(Outcome.ALTERED, *place, evidence, said, unlike)
        return Verdict(Outcome.OUTDATED, *place, said=_joined(said, _at(row.rank)), unlike=unlike)
    if not is_of_event and (row.rank is not None or change.placeholders or unlike):
        evidence = None
    return Verdict(Outcome.AGREES, *place, evidence, unlike=unlike)


def _is_newer(rank: Order | None, than: Order) -> bool:
    return rank is not None and len(rank) == len(than) and list(rank) > list(than)


def _at(rank: Order | None) -> str:
    return "" if rank is None else f"the row comes from position {':'.join(map(str, rank))}"


def _joined(*parts: str) -> str:
    return "; ".join(each for each in parts if each)

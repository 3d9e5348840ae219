"""Describes the comparison in sentences, and as a document for the page. Pure."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_zk.sim.strategies.measured import COUNT_EVERY_MS, SILENCE_MS, Measured
from kafka_zk.sim.strategies.members import CAPACITIES, RECORD_MS, STRATEGIES, Strategy
from kafka_zk.sim.strategies.play import AFTER_MS, BEFORE_MS, PARTITION_COUNT, RECORDS_PER_S, Change

_STAY = ("anna", "ben")
"""The members that a change leaves in the group."""


class Row(NamedTuple):
    strategy: Strategy
    cost: Measured

    @property
    def name(self) -> str:
        """The strategy's name, with the kind of group if both kinds have the strategy."""
        name = self.strategy.name
        is_unique = sum(each.name == name for each in STRATEGIES) == 1
        return name if is_unique else f"{name} ({kind(self.strategy)})"

    @property
    def silence_ms(self) -> int:
        """The longest silence of any member that stays."""
        return max(lane.longest_ms for lane in self.cost.lanes if lane.member in _STAY)


def kind(strategy: Strategy) -> str:
    return "ZooKeeper group" if strategy.in_zookeeper else "broker group"


def sentence(row: Row) -> str:
    """A sentence about what the change costs under one strategy."""
    cost = row.cost
    stay = [f"{lane.member} {_lasting(lane.longest_ms)}" for lane in cost.lanes if lane.member in _STAY]
    parts = [f"longest silence: {', '.join(stay)}"]
    parts += [
        f"{lane.member} gets its first record after {_lasting(lane.longest_ms)}"
        for lane in cost.lanes
        if lane.from_ms >= 0
    ]
    parts.append(f"{_records(cost.waited)} waited longer than 1 s, one of them {_lasting(cost.longest_wait_ms)}")
    if not cost.waited:
        parts[-1] = f"no record waited longer than {_lasting(cost.longest_wait_ms)}"
    if cost.twice:
        parts.append(f"{_records(cost.twice)} {'was' if cost.twice == 1 else 'were'} processed twice")
    if cost.caught_up_ms is None:
        parts.append(f"{_records(cost.waiting[-1])} still wait at the end")
    elif cost.caught_up_ms:
        parts.append(f"the group has caught up after {_lasting(cost.caught_up_ms)}")
    told = "; ".join(parts)
    return f"{told[0].upper()}{told[1:]}."


def conclusion(rows: Sequence[Row]) -> str:
    """A sentence about the difference between the strategies."""
    return f"{_silence(rows)}; {_waited(rows)}."


def _silence(rows: Sequence[Row]) -> str:
    loud = max(rows, key=lambda row: row.silence_ms)
    least_ms = max(SILENCE_MS, min(row.silence_ms for row in rows))
    if loud.silence_ms < 2 * least_ms:
        return f"No member that stays is silent for longer than {_lasting(max(least_ms, loud.silence_ms))}"
    quiet = [row for row in rows if row.silence_ms <= least_ms]
    return (
        f"A member that stays is silent for up to {_lasting(loud.silence_ms)} under {loud.name}, but at most"
        f" {_lasting(least_ms)} under {_names(quiet, rows)}"
    )


def _waited(rows: Sequence[Row]) -> str:
    many, least = max(rows, key=lambda row: row.cost.waited), min(row.cost.waited for row in rows)
    if many.cost.waited == least:
        return f"{_records(least)} waited longer than 1 s under each" if least else "no record waited longer than 1 s"
    few = _names([row for row in rows if row.cost.waited == least], rows)
    return f"{_records(many.cost.waited)} waited longer than 1 s under {many.name}, but {least or 'none'} under {few}"


def _names(some: Sequence[Row], rows: Sequence[Row]) -> str:
    if len(some) == len(rows) - 1 > 1:
        return "the others"
    *first, last = (row.name for row in some)
    return f"{', '.join(first)} and {last}" if first else last


def document(change: Change, rows: Sequence[Row]) -> dict[str, Any]:
    """The comparison of one change."""
    return {
        "name": change.name,
        "title": change.title,
        "begins": change.begins,
        "conclusion": conclusion(rows),
        "plays": [
            {
                "strategy": row.strategy.name,
                "kind": kind(row.strategy),
                "assignor": row.strategy.assignor,
                "how": row.strategy.how,
                "said": sentence(row),
                "most_waiting": max(row.cost.waiting),
                **_plain(row.cost),
            }
            for row in rows
        ],
    }


def frame() -> dict[str, Any]:
    """The part of the document that is the same for all comparisons."""
    return {
        "from_ms": -BEFORE_MS,
        "to_ms": AFTER_MS,
        "count_every_ms": COUNT_EVERY_MS,
        "silence_ms": SILENCE_MS,
        "partition_count": PARTITION_COUNT,
        "said": (
            f"{RECORDS_PER_S} records a second arrive at {PARTITION_COUNT} partitions. {_capacities()}. Sessions last"
            " 6 s; members of the broker group send a heartbeat every 1.5 s."
        ),
    }


def _capacities() -> str:
    each = (f"{name} can process {_rate(capacity)} a second" for name, capacity in CAPACITIES.items())
    return ", ".join(each) + f" (capacities {', '.join(map(str, CAPACITIES.values()))})"


def _rate(capacity: int) -> str:
    return f"{1000 * capacity / RECORD_MS:g}"


def _records(count: int) -> str:
    return f"{count} record{'' if count == 1 else 's'}"


def _lasting(duration_ms: int) -> str:
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"


def _plain(cost: Measured) -> dict[str, Any]:
    return {
        **cost._asdict(),
        "owned": [list(each) for each in cost.owned],
        "lanes": [each._asdict() for each in cost.lanes],
    }

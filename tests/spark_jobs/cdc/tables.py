"""A table in memory, into which rounds of changes are merged."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change, Key, Position
from kafka_zk.spark_jobs.cdc.folding import Delete, Fold, Upsert
from kafka_zk.spark_jobs.cdc.key_states import KeyState


class MemoryTable:
    def __init__(self) -> None:
        self.states: dict[Key, KeyState] = {}
        self.truncated_at: Position | None = None
        self.rows: dict[Key, dict[str, Any]] = {}
        """Updated only from the results, as in a real table."""
        self._positions: dict[Key, Position] = {}

    def merge(self, changes: Sequence[Change]) -> list[Upsert | Delete]:
        fold = Fold(self.states, self.truncated_at)
        for change in changes:
            fold.apply(change)
        results = fold.results()
        self.states.update(fold.states)
        self.truncated_at = fold.truncated_at
        self._truncate()
        for result in results:
            if isinstance(result, Upsert):
                self.rows[result.key] = dict(result.row)
                self._positions[result.key] = result.position
            else:
                self.rows.pop(result.key, None)
        return results

    def _truncate(self) -> None:
        if self.truncated_at is not None:
            for key in [key for key in self.rows if self._positions[key] <= self.truncated_at]:
                del self.rows[key]

    def keys(self) -> list[tuple[str, ...]]:
        return sorted(tuple(str(value) for value in json.loads(key).values()) for key in self.rows)


def merged_in_rounds(changes: Sequence[Change], random: Random) -> MemoryTable:
    """Merge all changes. Each round takes any number of the next changes of any partitions."""
    partitions: dict[int, list[Change]] = {}
    for change in changes:
        partitions.setdefault(change.partition, []).append(change)
    table = MemoryTable()
    queues = list(partitions.values())
    while queues:
        size = random.choice((1, 2, 5, 50))
        this_round: list[Change] = []
        while queues and len(this_round) < size:
            queue = random.choice(queues)
            this_round.append(queue.pop(0))
            queues = [each for each in queues if each]
        table.merge(this_round)
    return table

"""States that are stored as text result in the same rows."""

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from kafka_zk.spark_jobs.cdc.changes import Change, Key, Op, Position, Rank
from kafka_zk.spark_jobs.cdc.folding import Fold
from kafka_zk.spark_jobs.cdc.key_states import KeyState
from kafka_zk.spark_jobs.cdc.stored_states import change_of, change_text, merged, state_of, state_text
from tests.spark_jobs.cdc import recordings
from tests.spark_jobs.cdc.tables import MemoryTable

_VALUES = {
    "a": Decimal("1.50"),
    "b": date(2024, 2, 29),
    "c": datetime(2024, 2, 29, 12, 34, 56, 7, UTC),
    "d": b"\0\xff",
    "e": float("-inf"),
    "f": None,
    "g": "text",
    "h": 2**63,
    "i": True,
}


def test_a_change_keeps_its_values() -> None:
    change = Change(Op.UPSERT, Rank((1, 2, 3), 4), 5, "k", _VALUES, frozenset({"z"}), "from", "to")
    assert change_of(change_text(change)) == change


class _TwoTables:
    """Rows with their states, and the states of deleted keys, as strings; merged like Delta tables."""

    def __init__(self) -> None:
        self.rows: dict[Key, dict[str, Any]] = {}
        self._texts: dict[Key, str] = {}
        self._deleted: dict[Key, str] = {}
        self._truncated_at: Position | None = None

    def merge(self, changes: list[Change], *, dies: bool = False) -> None:
        """``dies``: between the two tables."""
        fold = Fold(self._states(), self._truncated_at)
        for change in changes:
            fold.apply(change_of(change_text(change)))
        self._truncated_at = fold.truncated_at
        texts = {key: state_text(state, fold.truncated_at) for key, state in fold.states.items()}
        rows = {key: state.row(fold.truncated_at) for key, state in fold.states.items()}
        self._deleted |= {key: texts[key] for key, row in rows.items() if row is None}
        if dies:
            return
        for key in [*self.rows]:
            state = state_of(self._texts[key], self.rows[key])
            if key not in rows and not state.exists(fold.truncated_at):
                del self.rows[key]
        for key, row in rows.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key], self._texts[key] = row, texts[key]

    def _states(self) -> dict[Key, KeyState]:
        found = {key: state_of(text) for key, text in self._deleted.items()}
        for key, row in self.rows.items():
            state = state_of(self._texts[key], row)
            found[key] = merged(found[key], state) if key in found else state
        return found


@pytest.mark.parametrize(
    ("database", "variant", "table"),
    [
        *(("postgres", "plain", name) for name in ("customers", "documents", "cleared", "orders", "evolving")),
        *(("mariadb", "plain", name) for name in ("customers", "cleared", "orders")),
        ("postgres", "bare", "documents"),
    ],
)
def test_states_as_text_lead_to_the_same_table_even_after_deaths(database: str, variant: str, table: str) -> None:
    changes = recordings.changes(database, variant, table)
    whole = MemoryTable()
    whole.merge(changes)
    for seed in range(6):
        random = Random(seed)
        stored = _TwoTables()
        left = list(changes)
        while left:
            size = random.choice((1, 3, 9))
            if random.random() < 0.4:
                stored.merge(left[: random.choice((1, 3, 9))], dies=True)
            stored.merge(left[:size])
            left = left[size:]
        assert stored.rows == whole.rows

"""Folds a round's changes into one change for each key. Pure.

    fold = Fold(states_of_the_keys_in_the_table, truncated_at)
    for change in changes:
        fold.apply(change)
    fold.results()        # what the table must do
    fold.states           # the states to store, with its rows and for deleted keys

The changes of one partition must be applied in offset order; partitions may come in any order. The caller must pass the
table's states for all keys in ``Change.key``, ``moved_from`` and ``moved_to``, and for the heirs that these states
name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change, Key, Op, Position
from kafka_zk.spark_jobs.cdc.key_states import Cell, Claim, KeyState
from kafka_zk.spark_jobs.errors import ChangeRefused


@dataclass(frozen=True, slots=True)
class Upsert:
    """``row``: all known columns. ``changed``: the columns that differ from the table's row."""

    key: Key
    row: Mapping[str, Any]
    changed: frozenset[str]
    position: Position


@dataclass(frozen=True, slots=True)
class Delete:
    key: Key
    position: Position


class Fold:
    """``truncated_at``: the position of the table's newest truncate; None if it was never truncated. After the changes,
    the table must also delete all rows of unchanged keys that are not newer than this position.
    """

    def __init__(self, states: Mapping[Key, KeyState], truncated_at: Position | None = None) -> None:
        self._before = states
        self._truncated_before = truncated_at
        self.truncated_at = truncated_at
        self.states: dict[Key, KeyState] = {}
        """The states of the changed keys."""

    def apply(self, change: Change) -> None:
        """Raises ChangeRefused."""
        if change.op is Op.TRUNCATE:
            if not change.rank.position:
                raise ChangeRefused("a truncate has no position, so the rows that it deletes are unknown")
            self.truncated_at = max(self.truncated_at or (), change.rank.position)
            return
        state = self._state(change.key)
        self._bequeath(state, state.merge(change))
        if change.moved_from is not None and change.placeholders:
            old = self._state(change.moved_from)
            self._bequeath(old, old.claimed_by(Claim(change.key, change.rank, change.placeholders)))

    def results(self) -> list[Upsert | Delete]:
        """One result for each key that has a row, or had a row in the table."""
        found: list[Upsert | Delete] = []
        for key, state in sorted(self.states.items()):
            before = self._before[key].row(self._truncated_before) if key in self._before else None
            after = state.row(self.truncated_at)
            newest = state.newest
            if newest is None:
                continue
            if after is not None:
                changed = frozenset(
                    name
                    for name, value in after.items()
                    if before is None or name not in before or before[name] != value
                )
                found.append(Upsert(key, after, changed, newest.position))
            elif before is not None:
                found.append(Delete(key, newest.position))
        return found

    def _state(self, key: Key) -> KeyState:
        if key not in self.states:
            self.states[key] = self._before[key].copy() if key in self._before else KeyState()
        return self.states[key]

    def _bequeath(self, state: KeyState, cells: list[tuple[str, Cell]]) -> None:
        while cells and state.claim is not None:
            heir = self._state(state.claim.heir)
            state, cells = heir, heir.write(cells)

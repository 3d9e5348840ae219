"""What is known of one key, in a form that any order of its changes leads to.

Every part of a state only grows: each column keeps the value with the highest rank, and the newest upsert and delete
are two ranks. So a change that comes again, or late, alters nothing that newer changes decided, and the state is the
same however the changes were divided into rounds.

    the row exists        its newest upsert is newer than its newest delete and than the table's truncate
    a column is visible   its value is newer than both
    the key was changed   the old key keeps its values as an estate. The new key inherits those that it awaits: columns
                          with a placeholder. Old and new key know each other, so either may come first.

A deleted key keeps its ranks and its estate, without values of its own. What an heir inherits is passed on again when a
change comes again, because the heir's row may not have been written then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change, Key, Op, Position, Rank
from kafka_zk.spark_jobs.errors import ChangeRefused

_BEFORE_ALL_OFFSETS = -1


@dataclass(frozen=True, slots=True)
class Cell:
    """A column's value. ``rank``: since when this row has it. ``origin``: the change that wrote it, perhaps of an old
    key.
    """

    value: Any
    rank: Rank
    origin: Rank

    @property
    def order(self) -> tuple[Rank, Rank]:
        return self.rank, self.origin


@dataclass(frozen=True, slots=True)
class Estate:
    """What a row was when its key changed to ``heir``."""

    heir: Key
    rank: Rank
    cells: dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Claim:
    """The row that took the place of this one, and the columns that it awaits."""

    heir: Key
    rank: Rank
    columns: frozenset[str]

    def takes(self, estate: Estate) -> bool:
        """Delete and create of one key change have the same position, if they have one."""
        return self.heir == estate.heir and self.rank.position == estate.rank.position


@dataclass(slots=True)
class KeyState:
    cells: dict[str, Cell] = field(default_factory=dict)
    seen_at: Rank | None = None
    deleted_at: Rank | None = None
    partition: int = -1
    """Of changes without a position, which only their partition orders."""
    estate: Estate | None = None
    claim: Claim | None = None

    def copy(self) -> "KeyState":
        return replace(self, cells=dict(self.cells))

    @property
    def newest(self) -> Rank | None:
        return max((rank for rank in (self.seen_at, self.deleted_at) if rank is not None), default=None)

    def exists(self, truncated_at: Position | None = None) -> bool:
        return self.seen_at is not None and self._is_newer(self.seen_at, truncated_at)

    def row(self, truncated_at: Position | None = None) -> dict[str, Any] | None:
        """The visible columns; None without a row. Columns that no change has brought are absent."""
        if not self.exists(truncated_at):
            return None
        return {name: cell.value for name, cell in self.cells.items() if self._is_newer(cell.rank, truncated_at)}

    def _is_newer(self, rank: Rank, truncated_at: Position | None) -> bool:
        survives_delete = self.deleted_at is None or rank > self.deleted_at
        return survives_delete and (truncated_at is None or rank.position > truncated_at)

    def merge(self, change: Change) -> list[tuple[str, Cell]]:
        """Returns the columns that the row's heir inherits. Raises ChangeRefused."""
        self._check_order(change)
        if change.op is Op.DELETE:
            return self._delete(change)
        self.seen_at = _later(self.seen_at, change.rank)
        written = [(name, Cell(value, change.rank, change.rank)) for name, value in change.columns.items()]
        return self.write(written)

    def write(self, cells: Iterable[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
        """Keep the newer values. Returns the columns that the row's heir inherits."""
        bequeathed = []
        for name, cell in cells:
            if self.estate is not None and self.estate.rank.position and cell.rank < self.estate.rank:
                if _improves(self.estate.cells, name, cell):
                    self.estate = replace(self.estate, cells={**self.estate.cells, name: cell})
                bequeathed += self._inherited([(name, self.estate.cells[name])])
            elif self.estate is None and self._precedes_claim(cell):
                bequeathed += self._inherited([(name, cell)])
            if (self.deleted_at is None or cell.rank > self.deleted_at) and _improves(self.cells, name, cell):
                self.cells[name] = cell
        return bequeathed

    def claimed_by(self, claim: Claim) -> list[tuple[str, Cell]]:
        """A row awaits columns of this one. Returns those that are known."""
        if self.claim is not None and claim.rank < self.claim.rank:
            return []
        self.claim = claim
        if self.estate is not None:
            return self._inherited(self.estate.cells.items()) if claim.takes(self.estate) else []
        return self._inherited((name, cell) for name, cell in self.cells.items() if self._precedes_claim(cell))

    def _delete(self, change: Change) -> list[tuple[str, Cell]]:
        bequeathed: list[tuple[str, Cell]] = []
        if change.moved_to is not None:
            if self.estate is None or change.rank > self.estate.rank:
                left = {name: cell for name, cell in self.cells.items() if cell.rank < change.rank}
                self.estate = Estate(change.moved_to, change.rank, left)
            if self.claim is not None and self.claim.takes(self.estate):
                bequeathed = self._inherited(self.estate.cells.items())
        self.deleted_at = deleted_at = _later(self.deleted_at, change.rank)
        self.cells = {name: cell for name, cell in self.cells.items() if cell.rank > deleted_at}
        return bequeathed

    def _precedes_claim(self, cell: Cell) -> bool:
        """Positions of two partitions' records are comparable, their offsets are not."""
        if self.claim is None:
            return False
        return not self.claim.rank.position or cell.rank.position < self.claim.rank.position

    def _inherited(self, cells: Iterable[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
        """The cells as the heir's, since the key changed and before the heir's own change there."""
        if self.claim is None or (self.estate is not None and not self.claim.takes(self.estate)):
            return []
        position = self.claim.rank.position
        since = Rank(position, _BEFORE_ALL_OFFSETS) if position else self.claim.rank
        return [
            (name, Cell(cell.value, since, cell.origin)) for name, cell in cells if name in self.claim.columns
        ]  # fmt: skip

    def _check_order(self, change: Change) -> None:
        newest = self.newest
        if newest is not None and len(newest.position) != len(change.rank.position):
            raise ChangeRefused(
                f"key {change.key} has changes of two kinds of connectors, or with and without a position, which "
                "have no common order"
            )
        if change.rank.position:
            return
        if self.partition not in (-1, change.partition):
            raise ChangeRefused(
                f"key {change.key} is in partitions {self.partition} and {change.partition}, because partitions were "
                "added, and its changes have no position to order them: give the connector's transform "
                "add.fields=op,lsn (PostgreSQL) or add.fields=op,file,pos,row (MariaDB)"
            )
        self.partition = change.partition


def _improves(cells: dict[str, Cell], name: str, cell: Cell) -> bool:
    return name not in cells or cell.order > cells[name].order


def _later(known: Rank | None, rank: Rank) -> Rank:
    return rank if known is None else max(known, rank)

"""The state of one key, which does not depend on the order in which the key's changes arrive.

Every part of a state only grows: each column keeps the value with the highest rank, and the newest upsert and delete
are ranks. So a change that is repeated or late alters nothing that newer changes decided, and it does not matter how
the changes are divided into rounds.

    the row exists        its newest upsert is newer than its newest delete and than the table's truncate
    a column is visible   its value is newer than both
    the key was changed   the old key keeps its values as an estate. The new key inherits those that it awaits: columns
                          with a placeholder. The states of the old and the new key name each other, so either event may
                          come first.

A deleted key keeps its ranks and its estate, but has no values of its own. When a change is repeated, the heir inherits
the same values again, because its row may not have been written the first time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change, Key, Op, Position, Rank
from kafka_zk.spark_jobs.errors import ChangeRefused

_BEFORE_ALL_OFFSETS = -1


@dataclass(frozen=True, slots=True)
class Cell:
    """A column's value. ``rank``: the change with which this row got the value. ``origin``: the change that first wrote
    the value, perhaps under an old key.
    """

    value: Any
    rank: Rank
    origin: Rank

    @property
    def order(self) -> tuple[Rank, Rank]:
        return self.rank, self.origin


@dataclass(frozen=True, slots=True)
class Estate:
    """The values that a row had when its key changed to ``heir``."""

    heir: Key
    rank: Rank
    cells: dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Claim:
    """The row that replaced this row in a key change, and the columns that it awaits from this row."""

    heir: Key
    rank: Rank
    columns: frozenset[str]

    def takes(self, estate: Estate) -> bool:
        """True if both are of one key change, whose delete and create have the same position, or no position."""
        return self.heir == estate.heir and self.rank.position == estate.rank.position


@dataclass(slots=True)
class KeyState:
    """``cells``: the columns that are newer than the newest delete. ``seen_at``: the newest upsert. ``deleted_at``: the
    newest delete. ``estate``, ``claim``: None if the key was not changed, or if that change has not arrived.
    """

    cells: dict[str, Cell] = field(default_factory=dict)
    seen_at: Rank | None = None
    deleted_at: Rank | None = None
    partition: int = -1
    """The partition of all changes without a position: only offsets order them, so they must be in one partition."""
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
        """The visible columns; None if the row does not exist. Columns that no change has contained are absent."""
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
        """Record that another row awaits columns of this row. Returns those columns that are known."""
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
        """True if the cell is older than the claim. The positions of records in two partitions can be compared, but not
        their offsets."""
        if self.claim is None:
            return False
        return not self.claim.rank.position or cell.rank.position < self.claim.rank.position

    def _inherited(self, cells: Iterable[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
        """The cells that the heir inherits. They get the key change's position, but rank before the heir's own change
        at this position."""
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
                f"key {change.key} has changes whose order is unknown: they come from two kinds of connectors, or only "
                "some have a position"
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

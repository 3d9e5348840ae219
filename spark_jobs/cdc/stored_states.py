"""Changes and states as JSON, in which executors exchange them and tables store them.

If a row exists, the table's columns contain its visible values, so its state contains only their ranks. Values that
JSON lacks are objects with one name:

    {"decimal": "1.50"}   {"date": "2024-02-29"}   {"timestamp": "2024-02-29T12:34:56"}   {"bytes": Base64}
    {"double": "nan"}     {"pairs": [["a", 1]]}, a map or a struct
"""

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from kafka_zk.spark_jobs.cdc.changes import Change, Op, Position, Rank
from kafka_zk.spark_jobs.cdc.key_states import Cell, Claim, Estate, KeyState

_READ: dict[str, Any] = {
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "bytes": base64.b64decode,
    "double": float,
}
_PAIRS = "pairs"


def change_text(change: Change) -> str:
    return _text(
        {
            "op": change.op.value,
            "rank": change.rank,
            "partition": change.partition,
            "key": change.key,
            "columns": _values(change.columns),
            "placeholders": sorted(change.placeholders),
            "from": change.moved_from,
            "to": change.moved_to,
        }
    )


def change_of(text: str) -> Change:
    found = json.loads(text)
    columns = {name: _value(each) for name, each in found["columns"].items()}
    return Change(
        Op(found["op"]), _rank(found["rank"]), found["partition"], found["key"], columns,
        frozenset(found["placeholders"]), found["from"], found["to"],
    )  # fmt: skip


def state_text(state: KeyState, truncated_at: Position | None) -> str:
    """The state, without the values of visible columns and without anything that can never become visible again."""
    row = state.row(truncated_at) or {}
    hidden = {} if row else state.cells
    return _text(
        {
            "seen": state.seen_at,
            "deleted": state.deleted_at,
            "partition": state.partition,
            "ranks": {name: [cell.rank, cell.origin] for name, cell in state.cells.items() if name in row},
            "cells": _cells({name: cell for name, cell in hidden.items() if _may_show(cell, truncated_at)}),
            "estate": state.estate and [state.estate.heir, state.estate.rank, _cells(state.estate.cells)],
            "claim": state.claim and [state.claim.heir, state.claim.rank, sorted(state.claim.columns)],
        }
    )


def _may_show(cell: Cell, truncated_at: Position | None) -> bool:
    return truncated_at is None or cell.rank.position > truncated_at


def state_of(text: str, row: Mapping[str, Any] | None = None) -> KeyState:
    """``row``: the row's columns in the table, if the table has the row."""
    found = json.loads(text)
    state = KeyState(
        seen_at=found["seen"] and _rank(found["seen"]),
        deleted_at=found["deleted"] and _rank(found["deleted"]),
        partition=found["partition"],
    )
    if found["estate"]:
        heir, rank, cells = found["estate"]
        state.estate = Estate(heir, _rank(rank), _cells_of(cells))
    if found["claim"]:
        heir, rank, columns = found["claim"]
        state.claim = Claim(heir, _rank(rank), frozenset(columns))
    state.cells = _cells_of(found["cells"])
    for name, value in (row or {}).items():
        if (ranks := found["ranks"].get(name)) is not None:
            state.cells[name] = Cell(value, _rank(ranks[0]), _rank(ranks[1]))
    return state


def merged(state: KeyState, other: KeyState) -> KeyState:
    """Merge the states that two tables have for the same key."""
    joined = state.copy()
    joined.seen_at = max((each for each in (state.seen_at, other.seen_at) if each), default=None)
    joined.deleted_at = max((each for each in (state.deleted_at, other.deleted_at) if each), default=None)
    joined.partition = max(state.partition, other.partition)
    joined.estate = max(
        (each for each in (state.estate, other.estate) if each), key=lambda each: each.rank, default=None
    )
    joined.claim = max((each for each in (state.claim, other.claim) if each), key=lambda each: each.rank, default=None)
    for name, cell in other.cells.items():
        if name not in joined.cells or cell.order > joined.cells[name].order:
            joined.cells[name] = cell
    dead = joined.deleted_at
    joined.cells = {name: cell for name, cell in joined.cells.items() if dead is None or cell.rank > dead}
    return joined


def _text(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _rank(given: Any) -> Rank:
    position, offset = given
    return Rank(tuple(position), offset)


def _cells(cells: Mapping[str, Cell]) -> dict[str, Any]:
    return {name: [_encoded(cell.value), cell.rank, cell.origin] for name, cell in cells.items()}


def _cells_of(given: Mapping[str, Any]) -> dict[str, Cell]:
    return {name: Cell(_value(value), _rank(rank), _rank(origin)) for name, (value, rank, origin) in given.items()}


def _values(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _encoded(value) for name, value in columns.items()}


def _encoded(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return {"double": repr(value)}
    if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], tuple)):
        pairs = value.items() if isinstance(value, dict) else value  # Arrow returns a map as a list of tuples
        return {_PAIRS: [[_encoded(name), _encoded(each)] for name, each in pairs]}
    return [_encoded(each) for each in value] if isinstance(value, list) else value


def _value(given: Any) -> Any:
    if isinstance(given, list):
        return [_value(each) for each in given]
    if not isinstance(given, dict):
        return given
    ((kind, content),) = given.items()
    if kind == _PAIRS:
        return {_value(name): _value(each) for name, each in content}
    return _READ[kind](content)

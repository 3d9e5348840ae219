"""Compares the columns of a target with those of an extraction, and says which types can be widened. Pure.

A type can be widened if readers of the format get the same value from files of the old type: TINYINT, SMALLINT, INT,
BIGINT in this order, FLOAT to DOUBLE, and a decimal to more digits before the point. Delta, Iceberg and Spark's Parquet
reader have these in common.

Types and schemas are Spark's JSON values (``StructType.jsonValue()``). Nullability is not compared.

Source: Iceberg's table specification (Schema Evolution), PROTOCOL.md of Delta Lake (Type Widening).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import TABLE_FORMATS

PARQUET = "parquet"
_FORMATS = (PARQUET, *TABLE_FORMATS)
_ORDERS = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))
_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
"""Names of types in SQL that differ from those in JSON."""
_DECIMAL = re.compile(r"DECIMAL\((\d+),(-?\d+)\)")

Fields = Sequence[Mapping[str, Any]]


class TypeChange(NamedTuple):
    """``path``: the names of the column and of the fields within it; ``element`` and ``value`` are those of an array
    and a map. ``old``, ``new``: types as in SQL, of the target and of the extraction."""

    path: tuple[str, ...]
    old: str
    new: str

    @property
    def widens(self) -> bool:
        return _is_wider(self.new, self.old)

    @property
    def narrows(self) -> bool:
        """True if the target's type has all values of the extraction's type."""
        return _is_wider(self.old, self.new)

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.old} → {self.new}"


def check(format: str, *, widen: bool) -> None:
    """Raises WronglyAsked."""
    if widen and format not in _FORMATS:
        raise WronglyAsked(f"--widen is for --format {', '.join(_FORMATS)}: {format} files have no types")


def type_changes(target: Fields, extraction: Fields) -> list[TypeChange]:
    """The changed types of the columns that both have, by name."""
    return list(_of_fields((), target, extraction))


def refusal(target: str, changes: Sequence[TypeChange], *, widen: bool, narrower_fits: bool = True) -> str | None:
    """Why these changes are refused; None if they are allowed.

    ``widen``: the types may be widened. ``narrower_fits``: a narrower type of the extraction is not a change.
    """
    changed = [each for each in changes if not (each.narrows and narrower_fits)]
    impossible = [".".join(each.path) for each in changed if not each.widens]
    if not changed or (widen and not impossible):
        return None
    advice = (
        f"{impossible[0]} cannot be widened to this type, so give the old types, or another --to"
        if impossible
        else "give --widen to widen the types in the target, or extract the old types"
    )
    return f"{target} has columns of other types ({', '.join(map(str, changed))}): {advice}"


def statement(table: str, change: TypeChange) -> str:
    """The statement that widens a type of a table. ``table``: its name in SQL."""
    path = ".".join(f"`{name.replace('`', '``')}`" for name in change.path)
    return f"ALTER TABLE {table} ALTER COLUMN {path} TYPE {change.new}"


def joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the columns of both, with the wider types. The changes must be allowed."""
    return {"type": "struct", "fields": _joined_fields(old["fields"], new["fields"])}


def with_wider_types(written: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """The schema ``written`` with the types of ``target`` where those are wider; fields keep their places."""
    return {"type": "struct", "fields": _joined_fields(written["fields"], target["fields"], adds=False)}


def type_name(kind: Any) -> str:
    """The type as in SQL."""
    if isinstance(kind, str):
        return _NAMES.get(kind, kind.upper())
    if kind["type"] == "array":
        return f"ARRAY<{type_name(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"MAP<{type_name(kind['keyType'])}, {type_name(kind['valueType'])}>"
    if kind["type"] == "struct":
        fields = ", ".join(f"{each['name']}: {type_name(each['type'])}" for each in kind["fields"])
        return f"STRUCT<{fields}>"
    return str(kind["type"]).upper()


def _of_fields(path: tuple[str, ...], target: Fields, extraction: Fields) -> Iterator[TypeChange]:
    kinds = {each["name"]: each["type"] for each in extraction}
    for each in target:
        if each["name"] in kinds:
            yield from _of_types((*path, each["name"]), each["type"], kinds[each["name"]])


def _of_types(path: tuple[str, ...], old: Any, new: Any) -> Iterator[TypeChange]:
    kind = _common_kind(old, new)
    if kind == "struct":
        yield from _of_fields(path, old["fields"], new["fields"])
    elif kind == "array":
        yield from _of_types((*path, "element"), old["elementType"], new["elementType"])
    elif kind == "map" and type_name(old["keyType"]) == type_name(new["keyType"]):
        yield from _of_types((*path, "value"), old["valueType"], new["valueType"])
    elif (names := (type_name(old), type_name(new)))[0] != names[1]:
        yield TypeChange(path, *names)


def _common_kind(old: Any, new: Any) -> str | None:
    """``struct``, ``array`` or ``map`` if both types are of this kind."""
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return None
    return str(old["type"])


def _is_wider(one: str, other: str) -> bool:
    for order in _ORDERS:
        if one in order and other in order:
            return order.index(one) > order.index(other)
    decimals = _DECIMAL.fullmatch(one), _DECIMAL.fullmatch(other)
    if decimals[0] is None or decimals[1] is None:
        return False
    (precision, scale), (other_precision, other_scale) = (map(int, each.groups()) for each in decimals if each)
    return scale == other_scale and precision > other_precision


def _joined_fields(old: Fields, new: Fields, *, adds: bool = True) -> list[dict[str, Any]]:
    """``adds``: with the fields that only ``new`` has."""
    kinds = {each["name"]: each["type"] for each in new}
    known = {each["name"] for each in old}
    both = [*old, *(each for each in new if adds and each["name"] not in known)]
    found = [(each["name"], _joined_type(each["type"], kinds.get(each["name"], each["type"]), adds)) for each in both]
    return [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in found]


def _joined_type(old: Any, new: Any, adds: bool) -> Any:
    kind = _common_kind(old, new)
    if kind == "struct":
        return {"type": kind, "fields": _joined_fields(old["fields"], new["fields"], adds=adds)}
    if kind == "array":
        element = _joined_type(old["elementType"], new["elementType"], adds)
        return {"type": kind, "elementType": element, "containsNull": True}
    if kind == "map":
        value = _joined_type(old["valueType"], new["valueType"], adds)
        return {"type": kind, "keyType": old["keyType"], "valueType": value, "valueContainsNull": True}
    return new if _is_wider(type_name(new), type_name(old)) else old

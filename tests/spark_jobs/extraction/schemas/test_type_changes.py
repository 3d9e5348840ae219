"""Which types can be widened, and what is said about the others."""

from typing import Any

import pytest
from pyspark.sql.types import StructType

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.schemas import type_changes as changes_of_types
from kafka_zk.spark_jobs.extraction.schemas.type_changes import (
    TypeChange,
    joined,
    refusal,
    statement,
    type_changes,
    type_name,
)

WIDER = [
    ("byte", "short"), ("byte", "integer"), ("byte", "long"), ("short", "integer"), ("short", "long"),
    ("integer", "long"), ("float", "double"), ("decimal(9,2)", "decimal(12,2)"), ("decimal(1,0)", "decimal(38,0)"),
]  # fmt: skip
OTHERS = [
    ("integer", "double"), ("integer", "decimal(10,0)"), ("long", "float"), ("integer", "string"), ("string", "binary"),
    ("decimal(9,2)", "decimal(12,3)"), ("decimal(9,2)", "decimal(38,1)"), ("decimal(9,2)", "double"),
    ("timestamp", "timestamp_ntz"), ("date", "timestamp"), ("integer", "boolean"),
]  # fmt: skip


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(**kinds: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [field(name, kind) for name, kind in kinds.items()]}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def changes(old: Any, new: Any) -> list[TypeChange]:
    return type_changes([field("a", old)], [field("a", new)])


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_a_wider_type_is_allowed_with_widen_and_a_narrower_one_fits(old: str, new: str) -> None:
    assert refusal("t", changes(old, new), widen=True) is None
    assert refusal("t", changes(new, old), widen=False) is None
    told = f"t has columns of other types (a: {type_name(old)} → {type_name(new)}): give --widen to widen the types"
    assert str(refusal("t", changes(old, new), widen=False)).startswith(told)
    assert "cannot be widened" in str(refusal("t", changes(new, old), widen=True, narrower_fits=False))


@pytest.mark.parametrize(("old", "new"), [*OTHERS, *((new, old) for old, new in OTHERS)])
def test_other_types_are_refused_with_and_without_widen(old: str, new: str) -> None:
    told = (
        f"t has columns of other types (a: {type_name(old)} → {type_name(new)}): a cannot be widened to this type, so "
        "give the old types, or another --to"
    )
    assert [refusal("t", changes(old, new), widen=widen) for widen in (False, True)] == [told, told]


@pytest.mark.parametrize("kind", ["integer", "decimal(9,2)", array("long"), mapping("string", struct(b="float"))])
def test_the_same_type_is_no_change(kind: Any) -> None:
    assert changes(kind, kind) == []


def test_all_changed_columns_are_told_in_one_sentence() -> None:
    found = type_changes(
        struct(a="integer", b="string", c="float")["fields"], struct(c="double", a="long", b="date")["fields"]
    )
    told = refusal("t", found, widen=True)
    assert told is not None and "(a: INT → BIGINT, b: STRING → DATE, c: FLOAT → DOUBLE): b cannot be" in told


def test_columns_that_only_one_of_both_has_are_no_changes_of_types() -> None:
    assert type_changes([field("a", "integer")], [field("b", "string")]) == []
    assert changes(struct(x="integer"), struct(y="string")) == []


@pytest.mark.parametrize(
    ("old", "new", "column"),
    [
        (struct(x="integer"), struct(x="long"), "`a`.`x`"),
        (array("integer"), array("long"), "`a`.`element`"),
        (mapping("string", "integer"), mapping("string", "long"), "`a`.`value`"),
        (array(struct(x=array("integer"))), array(struct(x=array("long"))), "`a`.`element`.`x`.`element`"),
    ],
)
def test_nested_types_are_widened_by_their_paths(old: Any, new: Any, column: str) -> None:
    (found,) = changes(old, new)
    assert found.widens
    assert statement("lake.db.t", found) == f"ALTER TABLE lake.db.t ALTER COLUMN {column} TYPE BIGINT"


def test_keys_of_maps_are_not_widened() -> None:
    """Iceberg cannot change them, and equal keys would have to stay equal."""
    (found,) = changes(mapping("integer", "integer"), mapping("long", "integer"))
    assert (found.widens, found.old, found.new) == (False, "MAP<INT, INT>", "MAP<BIGINT, INT>")


def test_a_name_is_quoted() -> None:
    assert statement("t", TypeChange(("a`b",), "INT", "BIGINT")) == "ALTER TABLE t ALTER COLUMN `a``b` TYPE BIGINT"


def test_a_joined_schema_has_all_columns_with_the_wider_types() -> None:
    old = struct(a="integer", b=array(struct(x="float")), c="string", d="long")
    new = struct(e="date", d="integer", b=array(struct(x="double", y="string")), a="long")
    wide = struct(a="long", b=array(struct(x="double", y="string")), c="string", d="long", e="date")
    assert joined(old, new) == wide
    assert joined(wide, new) == joined(wide, old) == wide


def test_a_joined_schema_is_one_of_spark() -> None:
    schema = StructType.fromJson(joined(struct(a="byte"), struct(a="short", m=mapping("string", "float"))))
    assert schema.simpleString() == "struct<a:smallint,m:map<string,float>>"


@pytest.mark.parametrize("format", ["json", "csv"])
def test_files_without_types_are_not_widened(format: str) -> None:
    changes_of_types.check(format, widen=False)
    with pytest.raises(WronglyAsked, match=f"--widen is for --format parquet, delta, iceberg: {format} files have no"):
        changes_of_types.check(format, widen=True)

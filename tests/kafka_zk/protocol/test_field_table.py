"""Field tables as Kafka writes them."""

import pytest

from kafka_zk.protocol.field_table import Field, Table, Versions


@pytest.mark.parametrize(
    ("text", "inside", "outside"), [("3+", (3, 99), 2), ("0-4", (0, 4), 5), ("7", (7, 7), 8), ("none", (), 0)]
)
def test_versions_are_read_in_kafkas_notation(text: str, inside: tuple[int, ...], outside: int) -> None:
    versions = Versions.parse(text)
    assert all(versions.include(version) for version in inside)
    assert not versions.include(outside)


@pytest.mark.parametrize(
    ("kind", "text", "default"),
    [
        ("int32", "0x7fffffff", 0x7FFFFFFF), ("int64", "-1", -1), ("int8", "", 0), ("bool", "true", True),
        ("bool", "", False), ("string", "", ""), ("string", "null", None), ("bytes", "", b""), ("uuid", "", None),
        ("float64", "1.5", 1.5), ("[]int32", "", ()), ("[]int32", "null", None),
    ],
)  # fmt: skip
def test_defaults_have_the_type_of_the_field(kind: str, text: str, default: object) -> None:
    found = Field({"name": "F", "type": kind, "versions": "0+", "default": text}).default
    assert found == default and type(found) is type(default)


def test_a_tagged_field_is_untagged_before_its_tagged_versions() -> None:
    row = {"name": "ClusterId", "type": "string", "versions": "0+", "taggedVersions": "2+", "tag": 0}
    table = Table("T", [row])
    field = table.field("cluster_id")
    assert (table.untagged(1), table.tagged(1)) == ((field,), ())
    assert (table.untagged(2), table.tagged(2)) == ((), (field,))

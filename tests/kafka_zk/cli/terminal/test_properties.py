"""Properties files are read as Java reads them."""

from pathlib import Path

import click
import pytest

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.properties import KEY_VALUE, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker.id=0\n", {"broker.id": "0"}),
        ("a = b = c", {"a": "b = c"}),
        ("a: b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a   =  b", {"a": "b"}),
        ("# no\n  ! no\n\na=1", {"a": "1"}),
        ("hosts=h1,\\\n   h2", {"hosts": "h1,h2"}),
        ("empty=", {"empty": ""}),
        ("empty", {"empty": ""}),
        (r"path=C:\\logs\ttab", {"path": "C:\\logs\ttab"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"u=\u00e9", {"u": "é"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://127.0.0.1:9092", {"listeners": "PLAINTEXT://127.0.0.1:9092"}),
        ("zookeeper.connect=h:2181/c", {"zookeeper.connect": "h:2181/c"}),
        ("end=x\\", {"end": "x"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_missing_file_is_one_sentence_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"none\.properties: No such file or directory"):
        read_properties(tmp_path / "none.properties")


def test_key_value_options_split_at_the_first_equals_sign() -> None:
    assert KEY_VALUE.convert("a=b=c", None, None) == ("a", "b=c")
    assert KEY_VALUE.convert("a=", None, None) == ("a", "")
    with pytest.raises(click.BadParameter, match="'ab' is not key=value"):
        KEY_VALUE.convert("ab", None, None)

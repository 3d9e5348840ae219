"""The records of a group reach their writer up to a limit, or until there are no more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.cli.groups.consume_broker_group import BrokerGroupOptions
from kafka_zk.cli.groups.consume_group import ZookeeperGroupOptions
from kafka_zk.cli.groups.group_records import GroupOptions, write_records

_COMMON: dict[str, Any] = {
    "group": "g",
    "topics": ("t",),
    "white_list": None,
    "black_list": None,
    "from_beginning": True,
    "properties": {},
    "wait": False,
}


class _Consumer:
    """A consumer with two records."""

    def __init__(self) -> None:
        self._left = ["a", "b"]

    def __iter__(self) -> Iterator[str]:
        while self._left:
            yield self._left.pop(0)


@pytest.mark.parametrize(("limits", "expected"), [((1, None), ["a"]), ((2, None), ["a", "b"]), ((None, 0), ["a", "b"])])
def test_writing_ends_at_the_limit_or_when_nothing_comes(
    limits: tuple[int | None, int | None], expected: list[str]
) -> None:
    most, timeout_ms = limits
    options: list[GroupOptions] = [
        ZookeeperGroupOptions(**_COMMON, max_messages=most, timeout_ms=timeout_ms, zookeeper=None, trace=Path("t")),
        BrokerGroupOptions(**_COMMON, max_messages=most, timeout_ms=timeout_ms, bootstrap="h:9092"),
    ]
    for each in options:
        written: list[Any] = []
        assert write_records(_Consumer(), each, written.append) == len(expected)  # type: ignore[arg-type]
        assert written == expected

"""Offsets in a text file, in the format of Kafka's ExportZkOffsets and ImportZkOffsets: one znode on each line.

/consumers/<group>/offsets/<topic>/<partition>:<offset>
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.base.integers import NATURAL_INT32, NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.registry.znodes.consumers import is_znode_name, offset_path

_LINE = re.compile(r"/consumers/([^/]+)/offsets/([^/]+)/([^/:]+):([^/:]+)")

GroupOffsets = Mapping[TopicPartition, int]


class _Entry(NamedTuple):
    group: str
    tp: TopicPartition
    offset: int


def lines(group: str, offsets: GroupOffsets) -> Iterator[str]:
    """The lines have no line ends."""
    for tp, offset in sorted(offsets.items()):
        yield f"{offset_path(group, *tp)}:{offset}"


def parse(text: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """Parse the offsets by group, skipping empty lines. Raises CommandFailed with the line number."""
    groups: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(text, 1):
        if line.strip():
            entry = _parse(number, line.strip())
            groups.setdefault(entry.group, {})[entry.tp] = entry.offset
    return groups


def _parse(number: int, line: str) -> _Entry:
    matched = _LINE.fullmatch(line)
    if matched is not None and is_znode_name(matched[1]):
        partition, offset = decimal_integer(matched[3], NATURAL_INT32), decimal_integer(matched[4], NATURAL_INT64)
        if partition is not None and offset is not None:
            return _Entry(matched[1], TopicPartition(matched[2], partition), offset)
    raise CommandFailed(f"line {number} is not of the form /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET: {line}")

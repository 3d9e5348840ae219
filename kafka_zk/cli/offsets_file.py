"""Offsets in a text file, in the format of Kafka's ExportZkOffsets and ImportZkOffsets: one znode on each line.

    /consumers/<group>/offsets/<topic>/<partition>:<offset>
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka_zk.cli.errors import CommandFailed
from kafka_zk.registry.znodes.consumers import is_znode_name, offset_path
from kafka_zk.storage.types import TopicPartition

_LINE = re.compile(r"/consumers/([^/]+)/offsets/([^/]+)/([0-9]{1,10}):([0-9]{1,19})")

GroupOffsets = Mapping[TopicPartition, int]


class _Entry(NamedTuple):
    group: str
    tp: TopicPartition
    offset: int


def lines(group: str, offsets: GroupOffsets) -> Iterator[str]:
    """The lines of one group, without line ends, sorted by topic and partition."""
    for tp, offset in sorted(offsets.items()):
        yield f"{offset_path(group, *tp)}:{offset}"


def parse(text: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets by group; empty lines are passed over. Raises: CommandFailed naming the line."""
    groups: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(text, 1):
        if line.strip():
            entry = _parse(number, line.strip())
            groups.setdefault(entry.group, {})[entry.tp] = entry.offset
    return groups


def _parse(number: int, line: str) -> _Entry:
    matched = _LINE.fullmatch(line)
    if matched is None or not is_znode_name(matched[1]):
        raise CommandFailed(f"line {number} is not of the form /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET: {line}")
    return _Entry(matched[1], TopicPartition(matched[2], int(matched[3])), int(matched[4]))

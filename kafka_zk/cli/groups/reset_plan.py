"""Offsets in the format that Kafka's kafka-consumer-groups reads (--from-file) and writes (--export).

    TOPIC,PARTITION,OFFSET for a single group GROUP,TOPIC,PARTITION,OFFSET

Source: CsvUtils.java, ConsumerGroupCommand.parseResetPlan@3.9.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping

from kafka_zk.base.integers import NATURAL_INT32, NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.errors import CommandFailed


def lines(offsets: Mapping[TopicPartition, int]) -> Iterator[str]:
    for (topic, partition), offset in offsets.items():
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow((topic, partition, offset))
        yield out.getvalue()


def parse(text: Iterable[str], group: str) -> dict[TopicPartition, int]:
    """Empty lines and lines of other groups are skipped.

    Raises: CommandFailed with the line number, or if the group has no line.
    """
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(text, 1):
        if not line.strip():
            continue
        fields = _fields(line)
        named, *rest = fields if len(fields) == 4 else (group, *fields)
        partition = decimal_integer(rest[1], NATURAL_INT32) if len(rest) == 3 else None
        offset = decimal_integer(rest[2], NATURAL_INT64) if len(rest) == 3 else None
        if partition is None or offset is None or not rest[0]:
            raise CommandFailed(f"line {number} is not of the form [GROUP,]TOPIC,PARTITION,OFFSET: {line.strip()}")
        if named == group:
            offsets[TopicPartition(rest[0], partition)] = offset
    if not offsets:
        raise CommandFailed(f"the file has no offsets of group {group}")
    return offsets


def _fields(line: str) -> list[str]:
    try:
        return next(csv.reader([line.strip()]))
    except csv.Error:
        return []

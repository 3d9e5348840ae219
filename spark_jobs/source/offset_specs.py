"""Start and end of a read, as Spark's own Kafka source accepts them."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT64, NATURAL_INT32, NATURAL_INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import OptionError

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


class Earliest(NamedTuple):
    """The first offset of each partition."""


class Latest(NamedTuple):
    """The end of each partition when the read is planned."""


class Committed(NamedTuple):
    """The group's offsets in ZooKeeper (not in Spark's own source); the first offset if there is none."""


class AtOffsets(NamedTuple):
    """An offset for each partition; -2: earliest, -1: latest."""

    offsets: Mapping[TopicPartition, int]


class AtTime(NamedTuple):
    """The first record at or after a timestamp: ``times_ms`` by partition, or one for all."""

    times_ms: Mapping[TopicPartition, int] | int


OffsetSpec = Earliest | Latest | Committed | AtOffsets | AtTime


def parse_word_or_json(option: str, text: str) -> OffsetSpec:
    """Parse ``earliest``, ``latest``, ``committed`` or ``{"topic":{"0":23,"1":-2}}``. Raises: OptionError."""
    match text.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "committed":
            return Committed()
    return AtOffsets(parse_partition_numbers(option, text, "an offset"))


def parse_times(option: str, text: str) -> AtTime:
    """Parse ``{"topic":{"0":1700000000000}}``, in ms since the epoch. Raises: OptionError."""
    return AtTime(parse_partition_numbers(option, text, "a time in ms"))


def parse_time(option: str, text: str) -> AtTime:
    """One timestamp in ms since the epoch. Raises OptionError."""
    time_ms = decimal_integer(text.strip(), NATURAL_INT64)
    if time_ms is None:
        raise OptionError(f"{option}: {text!r} is not a time in ms since the epoch")
    return AtTime(time_ms)


def parse_partition_numbers(option: str, text: str, meaning: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic":{"partition":number}}``. Raises: OptionError."""
    found = {}
    for topic, numbers in _object(option, text).items():
        if not isinstance(numbers, dict):
            raise OptionError(
                f'{option}: {topic} needs an object of partitions, as in {{{json.dumps(topic)}:{{"0":23}}}}'
            )
        for text_of_partition, number in numbers.items():
            partition = decimal_integer(text_of_partition, NATURAL_INT32)
            if partition is None or type(number) is not int or number not in INT64:
                told = f"{text_of_partition!r}:{number!r}"
                raise OptionError(f"{option}: {topic}: {told} is not a partition with {meaning}")
            found[TopicPartition(topic, partition)] = number
    return found


def parse_assign(text: str) -> list[TopicPartition]:
    """Parse ``{"topicA":[0,1],"topicB":[2]}``. Raises: OptionError."""
    found = []
    for topic, numbers in _object("assign", text).items():
        if not isinstance(numbers, list) or not all(
            type(number) is int and number in NATURAL_INT32 for number in numbers
        ):
            raise OptionError(f"assign: {topic} needs a list of partition numbers")
        found += [TopicPartition(topic, number) for number in numbers]
    return sorted(set(found))


def format_offsets(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    document: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return document


def offsets_of(document: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The inverse of ``format_offsets``."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, numbers in document.items()
        for partition, offset in numbers.items()
    }


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise OptionError(f"{option}: {text!r} is neither a known word nor a valid JSON object")
    return document

"""Chooses a record's partition: the explicit one, else by key, else in turn; or by a user's callable.

Pure. ``murmur2`` and the rule ``(murmur2(key) & 0x7fffffff) % count`` are the Java producer's, so both clients write
records of one key to the same partition.

Source: BuiltInPartitioner.java and RoundRobinPartitioner.java@3.9.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

from kafka_zk.base.murmur2 import murmur2

_CACHED_KEYS = 65_536

UserPartitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""``(topic, key, value, partition_count) -> partition``; ``partition_count`` includes partitions without a leader."""


class Partitioner(Protocol):
    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int:
        """A partition in ``range(count)``. ``available``: the partitions that have a leader now; may be empty."""


@lru_cache(maxsize=_CACHED_KEYS)
def _positive_murmur2(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


class RoundRobinPartitioner:
    """Keys by murmur2; records without a key are dealt in turn to the partitions that have a leader."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int:
        if key is not None:
            return _positive_murmur2(key) % count
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return available[turn % len(available)] if available else turn % count


class StickyPartitioner:
    """Keys by murmur2; records without a key stay with one partition until it has ``sticky_bytes``, then move on.

    With many partitions, batches are fewer and fuller than with round-robin (KIP-480, KIP-794).
    """

    def __init__(self, sticky_bytes: int) -> None:
        self._sticky_bytes = sticky_bytes
        self._turns: dict[str, tuple[int, int]] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int:
        if key is not None:
            return _positive_murmur2(key) % count
        turn, given_bytes = self._turns.get(topic, (0, 0))
        chosen = available[turn % len(available)] if available else turn % count
        given_bytes += len(value) if value is not None else 0
        self._turns[topic] = (turn + 1, 0) if given_bytes >= self._sticky_bytes else (turn, given_bytes)
        return chosen


class CallablePartitioner:
    def __init__(self, function: UserPartitioner) -> None:
        self._function = function

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int:
        chosen = self._function(topic, key, value, count)
        if not 0 <= chosen < count:
            raise ValueError(f"the partitioner chose partition {chosen} of {topic}, which has 0..{count - 1}")
        return chosen


def make_partitioner(choice: str | UserPartitioner, batch_size: int) -> Partitioner:
    if callable(choice):
        return CallablePartitioner(choice)
    return StickyPartitioner(batch_size) if choice == "sticky" else RoundRobinPartitioner()

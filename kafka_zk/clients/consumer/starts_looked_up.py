"""Owned partitions whose committed offsets are being fetched from the coordinator.

A partition that is revoked during the lookup never starts, and nothing is committed for it. On the reactor thread.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TypeAlias

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.delivery import Start

Offsets: TypeAlias = Mapping[TopicPartition, int]
LookUp = Callable[[Collection[TopicPartition]], Awaitable[Offsets]]


class StartsLookedUp:
    """``start``: starts the delivery. ``look_up``: returns the offset of each partition, -1 where nothing is
    committed."""

    def __init__(self, start: Callable[[Mapping[TopicPartition, Start]], None], look_up: LookUp) -> None:
        self._start = start
        self._look_up = look_up
        self._pending: dict[TopicPartition, object] = {}

    async def begin(self, threads: Mapping[TopicPartition, int]) -> None:
        """Start these partitions, each in its stream. Raises the errors of ``look_up``."""
        token = object()
        self._pending.update(dict.fromkeys(threads, token))
        offsets = await self._look_up(list(threads))
        left = [tp for tp in threads if self._pending.get(tp) is token]
        for tp in left:
            del self._pending[tp]
        if left:
            self._start({tp: Start(threads[tp], offsets[tp]) for tp in left})

    def withdraw(self, tps: Collection[TopicPartition]) -> None:
        for tp in tps:
            self._pending.pop(tp, None)

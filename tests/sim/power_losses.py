"""The promise of replication for records that are not flushed, when machines lose power (decision 0019). Pure.

A member of an ISR is whole from the moment at which it joins until its machine loses power: it has every acknowledged
record. The promise: if a whole member of the ISR can be elected, a whole member is elected, and no acknowledged record
is lost. An election without a whole member excuses the loss of what was sent before it.
Tests: tests/sim/test_power_losses.py.
"""

from collections.abc import Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.world.world import SESSION_TIMEOUT_MS

KNOWN_TO_CONTROLLERS_MS = 2 * SESSION_TIMEOUT_MS
"""After this time, every controller knows a broker's registration, and its earlier decisions are written."""


class PowerLosses:
    """Keeps track of the ISRs of partitions and of power losses."""

    def __init__(self) -> None:
        self._whole: dict[TopicPartition, frozenset[int]] = {}
        self._isr: dict[TopicPartition, frozenset[int]] = {}
        self._lost_ms: dict[int, float] = {}
        self._excused_until_ms: dict[TopicPartition, float] = {}

    def excused_until_ms(self, tp: TopicPartition) -> float:
        """Records sent up to this time may be lost; -1: none may."""
        return self._excused_until_ms.get(tp, -1)

    def lost_since(self, time_ms: float) -> frozenset[int]:
        """The brokers whose machines have lost power since then, and with it perhaps unflushed records."""
        return frozenset(broker_id for broker_id, lost_ms in self._lost_ms.items() if lost_ms >= time_ms)

    def power_lost(self, time_ms: float, broker_id: int) -> None:
        """Called when a broker's machine has lost power. The broker may have been down already."""
        self._lost_ms[broker_id] = time_ms
        for tp, whole in self._whole.items():
            self._whole[tp] = whole - {broker_id}

    def written(
        self, time_ms: float, tp: TopicPartition, leader: int, isr: Sequence[int], registered_ms: Mapping[int, float]
    ) -> list[str]:
        """Judge the write of a state. ``registered_ms``: when each live broker registered.

        A dead broker whose session has not ended may be elected, because it does not act. Returns violations.
        """
        before = self._isr.get(tp, frozenset())
        whole = self._whole.get(tp, frozenset())
        joined = frozenset(isr) - before
        self._isr[tp] = frozenset(isr)
        self._whole[tp] = (whole & frozenset(isr)) | joined
        is_back = registered_ms.get(leader, -1) > self._lost_ms.get(leader, -1)
        if leader in self._whole[tp] or not is_back or not before:
            return []
        broken = [
            f"{time_ms:.3f}: {leader} leads {tp} after a power loss, and {better} has kept what it had"
            for better in sorted(whole & registered_ms.keys())
            if time_ms - registered_ms[better] > KNOWN_TO_CONTROLLERS_MS
        ]
        self._excused_until_ms[tp] = time_ms
        self._whole[tp] |= {leader}  # from here on, this leader's log is the right one
        return broken

"""In which states a partition is for one member, and every legal change: one table.

    FREE ──► CLAIMING ──► OWNED ──► STOPPING ──► RELEASING ──► FREE
                │
                └──► WAITING ──► FREE (the owner znode is gone: claimed again)

Everything ends in FREE at once when the session ends. From CLAIMING to the end of RELEASING, but for WAITING, the owner
znode may be this member's. Tests: ``tests/rebalance/test_states.py``.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition


class IllegalStateChange(Exception):
    """A change of state that the table does not allow; nothing was changed."""


class HoldingState(enum.Enum):
    """A partition as one member sees it."""

    FREE = "free"  # this member has nothing to do with it
    CLAIMING = "claiming"  # a claim is under way
    WAITING = "waiting"  # another thread owns it; its owner znode is watched
    OWNED = "owned"  # claimed, its records are handed out
    STOPPING = "stopping"  # still owned, nothing is handed out any more, the user finishes what he holds
    RELEASING = "releasing"  # the final commit and the deletion of the owner znode are under way


TRANSITIONS: Mapping[HoldingState, frozenset[HoldingState]] = {
    HoldingState.CLAIMING: frozenset({HoldingState.FREE}),
    HoldingState.WAITING: frozenset({HoldingState.CLAIMING}),
    HoldingState.OWNED: frozenset({HoldingState.CLAIMING}),
    HoldingState.STOPPING: frozenset({HoldingState.OWNED}),
    # CLAIMING: when the claim succeeded, the partition was not wanted any more
    HoldingState.RELEASING: frozenset({HoldingState.STOPPING, HoldingState.CLAIMING}),
    # CLAIMING: taken and not wanted any more; OWNED, STOPPING: ownership was lost; all: the session ended
    HoldingState.FREE: frozenset(HoldingState) - {HoldingState.FREE},
}
"""New state -> the states it may be entered from."""


@dataclass(slots=True)
class Entry:
    """One partition that is not free."""

    state: HoldingState
    thread: int  # number of this member's thread that shall read it
    since_ms: float  # when it was claimed
    owner: str = ""  # that owner's thread id
    stop_id: int = 0  # which call of ``Delivery.stop`` it waits for
    topic_czxid: int = 0  # of the topic that was claimed
    is_outdated: bool = False  # the topic is another one by now


class PartitionTable:
    """All partitions of one member by state; those that are not listed are free."""

    def __init__(self) -> None:
        self._entries: dict[TopicPartition, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted(self._entries))

    def state(self, partition: TopicPartition) -> HoldingState:
        entry = self._entries.get(partition)
        return HoldingState.FREE if entry is None else entry.state

    def __getitem__(self, partition: TopicPartition) -> Entry:
        """Of a partition that is not free."""
        return self._entries[partition]

    def topics(self) -> frozenset[str]:
        """Those of all partitions that are listed."""
        return frozenset(partition.topic for partition in self._entries)

    def among(self, *states: HoldingState) -> list[TopicPartition]:
        """Those in one of the states, sorted."""
        return sorted(partition for partition, entry in self._entries.items() if entry.state in states)

    def claim(self, partition: TopicPartition, thread: int, now_ms: float) -> None:
        """FREE to CLAIMING, for the thread."""
        self._check(partition, HoldingState.CLAIMING)
        self._entries[partition] = Entry(HoldingState.CLAIMING, thread, now_ms)

    def change(self, partition: TopicPartition, state: HoldingState) -> Entry:
        """Any other change. Raises IllegalStateChange. Returns the entry (FREE: the one that is no more listed)."""
        self._check(partition, state)
        entry = self._entries[partition]
        if state is HoldingState.FREE:
            del self._entries[partition]
        else:
            entry.state = state
        return entry

    def _check(self, partition: TopicPartition, state: HoldingState) -> None:
        before = self.state(partition)
        if before not in TRANSITIONS[state]:
            raise IllegalStateChange(f"{partition}: from {before.value} to {state.value}")

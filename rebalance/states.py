"""In which states a partition is for one member, and what each event makes of them: one table.

    FREE ──► CLAIMING ──► OWNED ──► STOPPING ──► RELEASING ──► FREE
                │
                └──► WAITING ──► FREE (the owner znode is gone: claimed again)

Everything ends in FREE at once when the session ends. From CLAIMING to the end of RELEASING, but for WAITING, the owner
znode may be this member's. Tests: ``tests/rebalance/test_states.py``.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_zk.base.state_machine import outcome
from kafka_zk.base.types import TopicPartition


class HoldingState(enum.Enum):
    """A partition as one member sees it."""

    FREE = "free"  # this member has nothing to do with it
    CLAIMING = "claiming"  # a claim is under way
    WAITING = "waiting"  # another thread owns it; its owner znode is watched
    OWNED = "owned"  # claimed, its records are handed out
    STOPPING = "stopping"  # still owned, nothing is handed out any more, the user finishes the records in hand
    RELEASING = "releasing"  # the final commit and the deletion of the owner znode are under way


class Event(enum.Enum):
    """What happens to a partition."""

    CLAIM = "the target has it"
    CLAIMED = "its owner znode was created"
    TAKEN = "another thread's owner znode exists"
    GIVE_UP = "the target has it no more, and another thread owns it"
    OWNER_GONE = "the other owner's znode is gone"
    STOP = "the target has it no more"
    RELEASE = "its offset is to be committed and its owner znode deleted"
    RELEASED = "its owner znode is deleted, or was not ours"
    LOST = "ZooKeeper says that this member is not its owner"
    SESSION_ENDED = "the session ended"


_FREE, _CLAIMING, _WAITING, _OWNED, _STOPPING, _RELEASING = HoldingState

TRANSITIONS: Mapping[Event, Mapping[HoldingState, HoldingState]] = {
    Event.CLAIM: {_FREE: _CLAIMING},
    Event.CLAIMED: {_CLAIMING: _OWNED},
    Event.TAKEN: {_CLAIMING: _WAITING},
    Event.GIVE_UP: {_CLAIMING: _FREE, _WAITING: _FREE},
    Event.OWNER_GONE: {_WAITING: _FREE},
    Event.STOP: {_OWNED: _STOPPING},
    Event.RELEASE: {
        _STOPPING: _RELEASING,
        _CLAIMING: _RELEASING,  # when the claim succeeded, the target had it no more
    },
    Event.RELEASED: {_RELEASING: _FREE},
    Event.LOST: {_OWNED: _FREE, _STOPPING: _FREE},
    Event.SESSION_ENDED: {
        _CLAIMING: _FREE,
        _WAITING: _FREE,
        _OWNED: _FREE,
        _STOPPING: _FREE,
        _RELEASING: _FREE,
    },
}
"""What an event makes of a state. One that is not listed for a state is illegal."""


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
        """A free partition is being claimed for the thread. Raises: IllegalTransition, which changes nothing."""
        self._entries[partition] = Entry(outcome(TRANSITIONS, Event.CLAIM, self.state(partition)), thread, now_ms)

    def change(self, partition: TopicPartition, event: Event) -> Entry:
        """Any other event. Raises: IllegalTransition, which changes nothing. Returns the entry: what it was, if the
        partition is free now."""
        state = outcome(TRANSITIONS, event, self.state(partition))
        entry = self._entries[partition]
        if state is HoldingState.FREE:
            del self._entries[partition]
        else:
            entry.state = state
        return entry

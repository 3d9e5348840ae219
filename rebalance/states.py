"""A partition's states for one member.

    FREE ──► CLAIMING ──► OWNED ──► STOPPING ──► RELEASING ──► FREE
                │
                └──► WAITING ──► FREE (the owner znode was deleted: claim again)

The end of the session leads from every state to FREE. In every state but FREE and WAITING, the owner znode may be this
member's.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafka_zk.base.state_machine import outcome
from kafka_zk.base.types import TopicPartition


class HoldingState(enum.Enum):
    FREE = "free"  # neither owned nor claimed nor waited for
    CLAIMING = "claiming"  # a claim is in progress
    WAITING = "waiting"  # another thread owns it; its owner znode is watched
    OWNED = "owned"  # claimed and delivered
    STOPPING = "stopping"  # still owned, no longer delivered; the user finishes the last records
    RELEASING = "releasing"  # the final commit and the deletion of the owner znode are in progress


class Event(enum.Enum):
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
        _CLAIMING: _RELEASING,  # the target changed while the claim was in progress
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
"""Combinations that are not listed are illegal."""


@dataclass(slots=True)
class Entry:
    """A partition that is not FREE."""

    state: HoldingState
    thread: int  # number of this member's thread that should read it
    since_ms: float  # time of the claim, on the clock of ``step``
    owner: str = ""  # thread id of the owner; valid in WAITING
    stop_id: int = 0  # the ``Delivery.stop`` call it waits for; valid in STOPPING
    topic_czxid: int = 0  # czxid of the topic when claimed; 0: unknown
    is_outdated: bool = False  # the topic was recreated after the claim


class PartitionTable:
    """Partitions that are not listed are FREE."""

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
        """Raises KeyError for a FREE partition."""
        return self._entries[partition]

    def topics(self) -> frozenset[str]:
        return frozenset(partition.topic for partition in self._entries)

    def among(self, *states: HoldingState) -> list[TopicPartition]:
        return sorted(partition for partition, entry in self._entries.items() if entry.state in states)

    def claim(self, partition: TopicPartition, thread: int, now_ms: float) -> None:
        """Move a FREE partition to CLAIMING. Raises IllegalTransition, without any change."""
        self._entries[partition] = Entry(outcome(TRANSITIONS, Event.CLAIM, self.state(partition)), thread, now_ms)

    def change(self, partition: TopicPartition, event: Event) -> Entry:
        """Return the entry (the removed one if the partition is now FREE). Raises IllegalTransition, without any
        change.
        """
        state = outcome(TRANSITIONS, event, self.state(partition))
        entry = self._entries[partition]
        if state is HoldingState.FREE:
            del self._entries[partition]
        else:
            entry.state = state
        return entry

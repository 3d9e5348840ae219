"""The records of one stream on their way to the user.

Records are in order of delivery: first those that the user *holds*, then those that *wait*. When the user requests
more, the held records are *done*. A lock makes ``withdraw`` and a delivery exclude each other, so that no record of a
withdrawn partition is delivered afterwards. Pure except for this lock.
"""

import threading
from collections.abc import Callable, Collection

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.records import ConsumerRecord


class Handout:
    """The handout may be used from any thread.

    Args:
        may_act: checked before each delivery: the lease on the owned partitions.
        on_done: called on the user's thread when records that ``notify_done`` waits for are done.
    """

    def __init__(self, may_act: Callable[[], bool], on_done: Callable[[], None]) -> None:
        self._may_act = may_act
        self._on_done = on_done
        self._lock = threading.Lock()
        self._records: list[ConsumerRecord] = []
        self._done_count = 0
        self._given_count = 0
        self._holder: int | None = None
        self._lost: set[TopicPartition] = set()
        self.notify_done = False
        self.asked_count = 0

    # --- for the user ---

    def done(self) -> None:
        """Mark the held records as processed."""
        with self._lock:
            notify = self._set_done()
        if notify:
            self._on_done()

    def load(self, records: list[ConsumerRecord]) -> None:
        """Replace the records, which must all be done."""
        with self._lock:
            assert self._done_count == len(self._records), "the former records are done first"
            self._records = records
            self._done_count = self._given_count = 0

    def remaining(self) -> list[ConsumerRecord]:
        """All waiting records; none if ``may_act`` returns False."""
        with self._lock:
            if self._given_count == len(self._records) or not self._may_act():
                return []
            records = self._records[self._given_count :]
            self._given_count = len(self._records)
            self._holder = threading.get_ident()
            return records

    def next(self) -> ConsumerRecord | None:
        """The next record; None if no record can be delivered now. Marks the previous record as done."""
        with self._lock:
            notify = self._set_done()
            record = None
            index = self._given_count
            if index < len(self._records) and self._may_act():
                record = self._records[index]
                self._given_count = index + 1
                self._holder = threading.get_ident()
        if notify:
            self._on_done()
        return record

    @property
    def has_waiting(self) -> bool:
        return self._given_count < len(self._records)

    def held_by_this_thread(self) -> bool:
        """True if the held records were delivered to the calling thread."""
        return self._holder == threading.get_ident()

    def _set_done(self) -> bool:
        self.asked_count += 1
        self._done_count = self._given_count
        if self._lost:
            self._lost = set()
        notify, self.notify_done = self.notify_done, False
        return notify

    # --- for the consumer ---

    def held(self) -> set[TopicPartition]:
        with self._lock:
            return {record.tp for record in self._records[self._done_count : self._given_count]}

    def undone_offsets(self) -> dict[TopicPartition, int]:
        """The offset of the first record that is not done, for each partition."""
        with self._lock:
            return _first_offsets(self._records[self._done_count :])

    def waiting_offsets(self) -> dict[TopicPartition, int]:
        with self._lock:
            return _first_offsets(self._records[self._given_count :])

    def withdraw(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Remove the waiting records of these partitions. Returns the offset of the first removed record of each.

        Held records stay held.
        """
        with self._lock:
            waiting = self._records[self._given_count :]
            kept = [record for record in waiting if record.tp not in partitions]
            if len(kept) == len(waiting):
                return {}
            self._records = self._records[: self._given_count] + kept
            return _first_offsets([record for record in waiting if record.tp in partitions])

    def lost(self) -> set[TopicPartition]:
        """Forgotten partitions of which the user still holds records."""
        with self._lock:
            return set(self._lost)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these revoked partitions, including those of which the user still holds records (``lost``)."""
        with self._lock:
            self._lost |= self._remove(partitions)

    def pass_over(self, partitions: Collection[TopicPartition]) -> None:
        """The user seeks: ignore waiting and held records of these partitions."""
        with self._lock:
            self._remove(partitions)

    def _remove(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        held = self._records[self._done_count : self._given_count]
        waiting = self._records[self._given_count :]
        kept = [record for record in held if record.tp not in partitions]
        self._records = kept + [record for record in waiting if record.tp not in partitions]
        self._done_count, self._given_count = 0, len(kept)
        return {record.tp for record in held} & set(partitions)


def _first_offsets(records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    first: dict[TopicPartition, int] = {}
    for record in records:
        first.setdefault(record.tp, record.offset)
    return first

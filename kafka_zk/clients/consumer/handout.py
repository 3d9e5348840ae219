"""The records of one stream on their way to the user: waiting, held by the user, or done.

Records are here in the order of delivery: those that the user is *done* with (forgotten), those that they *hold*, and
those that wait. Users are done with what they hold when they request more. Taking a partition away (``withdraw``) and
handing out a record exclude each other by a lock, so that nothing is handed out from the withdrawal on, whichever
thread the user runs in. Pure but for that lock. Tests: tests/kafka_zk/clients/consumer/test_handout.py.
"""

import threading
from collections.abc import Callable, Collection

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.records import ConsumerRecord


class Handout:
    """The records of one stream; any thread.

    Args:
        may_act: asked before each hand-out; the lease on what is owned.
        on_done: called, in the user's thread, when they are done with records of which ``notify_done`` wants to know.
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
        """How often the user requested something."""

    # --- for the user ---

    def done(self) -> None:
        """The user requests more, so they are done with the records they hold."""
        with self._lock:
            notify = self._set_done()
        if notify:
            self._on_done()

    def load(self, records: list[ConsumerRecord]) -> None:
        """Add records to hand out; all earlier ones must be done."""
        with self._lock:
            assert self._done_count == len(self._records), "the former records are done first"
            self._records = records
            self._done_count = self._given_count = 0

    def rest(self) -> list[ConsumerRecord]:
        """Hand out all waiting records together; none if ``may_act`` is false."""
        with self._lock:
            if self._given_count == len(self._records) or not self._may_act():
                return []
            records = self._records[self._given_count :]
            self._given_count = len(self._records)
            self._holder = threading.get_ident()
            return records

    def next(self) -> ConsumerRecord | None:
        """Hand out the next record, which says that the user is done with the one before; None if there is none now."""
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
        """Whether ``next`` has a record to hand out."""
        return self._given_count < len(self._records)

    def held_by_this_thread(self) -> bool:
        """Whether the calling thread received the held records."""
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
        """The partitions of which the user holds records."""
        with self._lock:
            return {record.tp for record in self._records[self._done_count : self._given_count]}

    def undone_offsets(self) -> dict[TopicPartition, int]:
        """Per partition the first record that the user is not done with, of those that lie here."""
        with self._lock:
            return _first_offsets(self._records[self._done_count :])

    def waiting_offsets(self) -> dict[TopicPartition, int]:
        """Per partition the first record that was not handed out, of those that lie here."""
        with self._lock:
            return _first_offsets(self._records[self._given_count :])

    def withdraw(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Hand out nothing more of these; per partition the first record that was not handed out, where one lay here.

        What the user holds stays held.
        """
        with self._lock:
            waiting = self._records[self._given_count :]
            kept = [record for record in waiting if record.tp not in partitions]
            if len(kept) == len(waiting):
                return {}
            self._records = self._records[: self._given_count] + kept
            return _first_offsets([record for record in waiting if record.tp in partitions])

    def lost(self) -> set[TopicPartition]:
        """Partitions that were forgotten while the user held, and still holds, records of them."""
        with self._lock:
            return set(self._lost)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions, which were revoked; the user may still hold records of them."""
        with self._lock:
            self._lost |= self._remove(partitions)

    def pass_over(self, partitions: Collection[TopicPartition]) -> None:
        """The user seeks in these: waiting and held records of them no longer count."""
        with self._lock:
            self._remove(partitions)

    def _remove(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those partitions of which the user holds records."""
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

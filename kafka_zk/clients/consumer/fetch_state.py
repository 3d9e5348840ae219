"""A reader's assigned partitions: position, fetch in flight and fetched data.

Pure. Every change of a position from outside (``assign``, ``add``, ``seek``, a reset) gives the partition a new
``generation``, so that responses to older requests are recognised and dropped.

Source: SubscriptionState.java, Fetcher.java and CompletedFetch.java@3.9.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, cast

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError, KafkaError, broker_error
from kafka_zk.clients.connection.list_offsets import LATEST
from kafka_zk.clients.consumer.aborted_transactions import batches_with_aborted
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.partition_fetch import PartitionFetch
from kafka_zk.clients.consumer.records import ConsumerRecord, decode_batch, is_unreadable
from kafka_zk.clients.consumer.starts import RESETS, Start, parse_start
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import Buffer

_STALE_METADATA = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class After(Enum):
    NOTHING = "nothing"
    REFRESH = "refresh the metadata, then fetch again"
    RESET = "look up the offset that the reset needs"


class Wanted(NamedTuple):
    tp: TopicPartition
    fetch_offset: int
    generation: int


class Lookup(NamedTuple):
    """``spec``: the timestamp for ListOffsets."""

    spec: int
    generation: int


class UnreadableBatch(NamedTuple):
    tp: TopicPartition
    first_offset: int
    last_offset: int
    reason: str


class FetchState:
    """``ahead_bytes``: partitions with more fetched bytes than this are not fetched; default:
    max.partition.fetch.bytes. ``on_unreadable``: called for each skipped batch. The CRC of such a batch is valid, so
    its producer wrote an invalid batch, which would block the partition permanently.
    """

    def __init__(self, config: ReaderConfig, ahead_bytes: int | None = None) -> None:
        self._ahead_bytes = config.max_partition_fetch_bytes if ahead_bytes is None else ahead_bytes
        self._max_poll_records = config.max_poll_records
        self._reset = config.auto_offset_reset
        self._check_crcs = config.check_crcs
        self._read_committed = config.read_committed
        self._retry_backoff_ms = config.retry_backoff_ms
        self._read_replica_ms = config.metadata_max_age_ms
        self._partitions: dict[TopicPartition, PartitionFetch] = {}
        self._ready: dict[TopicPartition, None] = {}  # partitions with data, least recently served first
        self._generation = 0
        self.on_unreadable: Callable[[UnreadableBatch], object] = lambda unreadable: None

    # --- assignment and positions ---

    @property
    def assignment(self) -> list[TopicPartition]:
        return sorted(self._partitions)

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read exactly these partitions from now on. Raises ValueError for an invalid start."""
        parsed = {tp: parse_start(tp, start) for tp, start in starts.items()}
        self._partitions = {}
        self._ready = {}
        self._add(parsed)

    def add(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Also read these partitions; those that are already read restart. Raises ValueError for an invalid start."""
        self._add({tp: parse_start(tp, start) for tp, start in starts.items()})

    def _add(self, parsed: Mapping[TopicPartition, tuple[int | None, int | None]]) -> None:
        for tp, (offset, lookup) in parsed.items():
            self._generation += 1
            self._partitions[tp] = PartitionFetch(self._generation, offset, lookup)
            self._ready.pop(tp, None)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their fetched data."""
        for tp in partitions:
            self._partitions.pop(tp, None)
            self._ready.pop(tp, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and delivering these partitions, but keep their fetched data."""
        for tp in partitions:
            self._get(tp).paused = True
            self._ready.pop(tp, None)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            state = self._get(tp)
            state.paused = False
            if state.has_something:
                self._ready.setdefault(tp)

    @property
    def paused(self) -> list[TopicPartition]:
        return sorted(tp for tp, state in self._partitions.items() if state.paused)

    def seek(self, tp: TopicPartition, start: Start) -> None:
        offset, lookup = parse_start(tp, start)
        self._restart(self._get(tp), tp, offset, lookup)

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record for the user; None while it is being looked up."""
        return self._get(tp).position

    def high_watermark(self, tp: TopicPartition) -> int:
        """The last high watermark received, -1 before the first response."""
        return self._get(tp).high_watermark

    def plan_lookups(
        self, leader_of: Callable[[TopicPartition], int | None], now_ms: int
    ) -> tuple[dict[TopicPartition, Lookup], bool]:
        """The lookups to send now, and whether a partition has no leader."""
        found: dict[TopicPartition, Lookup] = {}
        leaderless = False
        for tp, state in self._partitions.items():
            if state.lookup is None or state.in_flight or state.not_before_ms > now_ms or state.error is not None:
                continue
            if leader_of(tp) is None:
                leaderless = True
                continue
            state.in_flight = True
            found[tp] = Lookup(state.lookup, state.generation)
        return found, leaderless

    def looked_up(self, tp: TopicPartition, generation: int, offset: int) -> bool:
        """True if the partition now has a position.

        -1 (no record at or after the timestamp) leads to a lookup of the end.
        """
        state = self._current(tp, generation)
        if state is None:
            return False
        state.in_flight = False
        if offset < 0:
            state.lookup = LATEST
            return False
        state.position = state.fetch_offset = offset
        state.lookup = None
        return True

    def lookup_failed(self, tp: TopicPartition, generation: int, error: KafkaError, now_ms: int) -> None:
        """The lookup is repeated after a back-off; for a permanent error, ``take`` raises the error instead."""
        state = self._current(tp, generation)
        if state is not None:
            state.in_flight = False
            state.not_before_ms = now_ms + self._retry_backoff_ms
            if not error.retriable:
                self._fail(tp, state, error)

    # --- fetching ---

    def plan(
        self, leader_of: Callable[[TopicPartition], int | None], busy_nodes: set[int], now_ms: int
    ) -> tuple[dict[int, list[Wanted]], bool]:
        """The fetches to send now, for each broker that is not busy, and whether a partition has no known leader.

        A broker without new data delays its response (fetch.max.wait.ms), and gets no other fetch until then. Therefore
        a fetch whose partitions are all at their end is not sent while another partition of the broker has enough
        fetched data: that partition will need a fetch soon.
        """
        plans: dict[int, list[Wanted]] = {}
        full_nodes: set[int] = set()
        leaderless = False
        for tp, state in self._partitions.items():
            if state.position is None or state.in_flight or state.paused or state.error is not None:
                continue
            if state.read_replica is not None and state.read_replica_until_ms <= now_ms:
                state.read_replica = None  # return to the leader
            node = leader_of(tp) if state.read_replica is None else state.read_replica
            if node is None:
                leaderless = True
                continue
            if state.buffered_bytes >= self._ahead_bytes:
                full_nodes.add(node)
            elif node not in busy_nodes and state.not_before_ms <= now_ms:
                plans.setdefault(node, []).append(Wanted(tp, state.fetch_offset, state.generation))
        for node in sorted(full_nodes & plans.keys()):
            if all(self._at_end(wanted) for wanted in plans[node]):
                del plans[node]
        for wanted in plans.values():
            for tp, _, _ in wanted:
                # Move to the end of the next request: brokers fill a response in the order of its partitions.
                state = self._partitions.pop(tp)
                state.in_flight = True
                self._partitions[tp] = state
        return plans, leaderless

    def _at_end(self, wanted: Wanted) -> bool:
        state = self._partitions[wanted.tp]
        end = state.last_stable_offset if self._read_committed else state.high_watermark
        return 0 <= end <= wanted.fetch_offset

    def next_retry_ms(self, now_ms: int) -> int | None:
        times = [state.not_before_ms for state in self._partitions.values() if state.not_before_ms > now_ms]
        return min(times, default=None)

    def fetched(self, wanted: Wanted, answer: FetchedPartition, now_ms: int, *, has_moved: bool = False) -> After:
        """Handle one partition of a fetch response. ``has_moved``: the response named a new leader or leader epoch, so
        the partition can be fetched there without a pause.
        """
        tp, fetch_offset, generation = wanted
        state = self._current(tp, generation)
        if state is None:
            return After.NOTHING
        state.in_flight = False
        if answer.error_code:
            if has_moved:
                state.read_replica = None
                return After.NOTHING
            return self._refused(tp, state, answer.error_code, fetch_offset, now_ms)
        if answer.preferred_read_replica >= 0:
            state.read_replica = answer.preferred_read_replica
            state.read_replica_until_ms = now_ms + self._read_replica_ms
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        if answer.records:
            aborted = answer.aborted_transactions or () if self._read_committed else ()
            self._take_in(tp, state, cast("Buffer", answer.records), aborted)  # clients receive records as a buffer
        return After.NOTHING

    def fetch_lost(self, wanted: Wanted, now_ms: int) -> None:
        state = self._current(wanted.tp, wanted.generation)
        if state is not None:
            state.in_flight = False
            state.read_replica = None
            state.not_before_ms = now_ms + self._retry_backoff_ms

    def _take_in(
        self, tp: TopicPartition, state: PartitionFetch, data: Buffer, aborted: Sequence[AbortedTransaction]
    ) -> None:
        try:
            for position, header, is_aborted in batches_with_aborted(data, aborted):
                if header.next_offset > state.fetch_offset:
                    state.batches.append((data, position, header, is_aborted))
                    state.buffered_bytes += header.size_bytes
                    state.fetch_offset = header.next_offset
        except StorageError as error:
            self._fail(tp, state, _corrupt(tp, error))
        self._set_ready(tp, state)

    def _refused(self, tp: TopicPartition, state: PartitionFetch, code: int, fetch_offset: int, now_ms: int) -> After:
        is_told_by_leader, state.read_replica = state.read_replica is None, None
        if code in _STALE_METADATA:
            state.not_before_ms = now_ms + self._retry_backoff_ms
            return After.REFRESH
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.position != fetch_offset or not is_told_by_leader:
                # Deliver older data first; the retry gets the same error immediately. A follower may lack records that
                # the leader has.
                state.not_before_ms = now_ms + self._retry_backoff_ms
                return After.NOTHING
            if self._reset in RESETS:
                self._restart(state, tp, None, RESETS[self._reset])
                return After.RESET
        self._fail(tp, state, broker_error(code, f"fetching {tp} at offset {fetch_offset}"))
        return After.NOTHING

    # --- delivering ---

    @property
    def has_records(self) -> bool:
        return bool(self._ready)

    def has_records_of(self, partitions: Collection[TopicPartition]) -> bool:
        return any(tp in partitions for tp in self._ready)

    def take(self, partitions: Collection[TopicPartition] | None = None) -> list[ConsumerRecord]:
        """Return at most ``max.poll.records`` records, in order within each partition, and advance the positions.

        Args: ``partitions``: return records of these partitions only; None: of all.
        Raises: KafkaError of a failed partition, after all records before it were delivered, and again at each call
        until the position is changed.
        """
        taken: list[ConsumerRecord] = []
        for tp in [tp for tp in self._ready if partitions is None or tp in partitions]:
            if len(taken) >= self._max_poll_records:
                break
            state = self._partitions[tp]
            self._drain(tp, state, taken)
            if state.batches or state.records is not None:
                self._ready[tp] = self._ready.pop(tp)  # last in turn, because it was just served
            elif state.error is None:
                del self._ready[tp]
            elif not taken:
                raise state.error
            else:
                break
        return taken

    def fail(self, tp: TopicPartition, offset: int | None, error: KafkaError) -> None:
        """``take`` raises ``error`` until a seek. ``offset``: None if the partition has no start."""
        state = self._get(tp)
        self._restart(state, tp, offset, None)
        self._fail(tp, state, error)

    def _drain(self, tp: TopicPartition, state: PartitionFetch, taken: list[ConsumerRecord]) -> None:
        while len(taken) < self._max_poll_records:
            if state.records is not None:
                self._drain_cut_batch(state, state.records, taken)
                continue
            if not state.batches:
                return
            data, position, header, is_aborted = state.batches.popleft()
            state.buffered_bytes -= header.size_bytes
            assert state.position is not None
            try:
                records = decode_batch(tp, data, position, header, state.position, self._check_crcs, is_aborted)
            except StorageError as error:
                if is_unreadable(data, position, header, error):
                    self.on_unreadable(UnreadableBatch(tp, header.base_offset, header.last_offset, str(error)))
                    state.position = header.next_offset
                    continue
                state.batches.clear()
                state.buffered_bytes = 0
                state.error = _corrupt(tp, error)
                return
            if len(taken) + len(records) <= self._max_poll_records:
                taken += records
                state.position = header.next_offset
            else:
                state.records, state.records_taken_count, state.records_end = records, 0, header.next_offset

    def _drain_cut_batch(
        self, state: PartitionFetch, records: list[ConsumerRecord], taken: list[ConsumerRecord]
    ) -> None:
        start = state.records_taken_count
        part = records[start : start + self._max_poll_records - len(taken)]
        taken += part
        state.records_taken_count = start + len(part)
        if state.records_taken_count == len(records):
            state.records = None
            state.position = state.records_end
        else:
            state.position = part[-1].offset + 1

    # --- internals ---

    def _get(self, tp: TopicPartition) -> PartitionFetch:
        try:
            return self._partitions[tp]
        except KeyError:
            raise KafkaError(f"{tp} is not assigned") from None

    def _current(self, tp: TopicPartition, generation: int) -> PartitionFetch | None:
        state = self._partitions.get(tp)
        return state if state is not None and state.generation == generation else None

    def _restart(self, state: PartitionFetch, tp: TopicPartition, position: int | None, lookup: int | None) -> None:
        self._generation += 1
        state.restart(self._generation, position, lookup)
        self._ready.pop(tp, None)

    def _fail(self, tp: TopicPartition, state: PartitionFetch, error: KafkaError) -> None:
        state.error = error
        self._set_ready(tp, state)

    def _set_ready(self, tp: TopicPartition, state: PartitionFetch) -> None:
        if state.has_something and not state.paused:
            self._ready.setdefault(tp)


def _corrupt(tp: TopicPartition, error: StorageError) -> BrokerError:
    return broker_error(ErrorCode.CORRUPT_MESSAGE, f"reading {tp}", str(error))

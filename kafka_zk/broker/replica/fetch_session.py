"""Incremental fetch sessions (KIP-227): the broker remembers what a client fetches, and messages list only changes.

(``session_id``, ``session_epoch``) of a request: (0, -1) no session; (any, 0) begin a session and close the old one;
(id, -1) close it; (id, n) request n of the session. Epochs count up from 1 and wrap to 1. A partition that returned
records moves to the end of the order, so that all partitions get a share of ``max_bytes``.

Sessions use limited memory. If no memory is left, the broker responds without a session, and the client sends full
requests. The broker does the same if a consumer requests unknown partitions, because their number is unlimited. A
follower may request unknown partitions, because it may learn of a partition before the leader does. If memory is short,
a follower's session replaces a consumer's.

Pure; ids come from the caller.
Source: FetchSession.scala@3.9.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafka_zk.network.memory_pool import UNBOUNDED, MemoryPool
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_EPOCH = 0x7FFFFFFF
MIN_EVICTION_MS = 120_000
"""A session used within this time is not evicted for a new one (min.incremental.fetch.session.eviction.ms)."""

EVERYTHING_MS = 500
"""Kafka's interval between fetches of an idle partition: the default of ``replica.fetch.wait.max.ms``."""

_MOST_EVERYTHING_MS = 5_000
_SHARE_OF_LAG = 6

_NEVER_MS = -(2**62)

PARTITION_BYTES = 512
"""Memory per remembered partition. Measured: 350 in a new session, up to 900 if all partitions of a follower get
records."""

TopicKey = str | bytes  # a name, or an id (16 bytes) from version 13 on
PartitionKey = tuple[TopicKey, int]
Wanted = dict[PartitionKey, FetchPartition]
Fetched = list[tuple[TopicKey, FetchedPartition]]
IsKnown = Callable[[TopicKey, int], bool]


def everything_ms_for(max_lag_ms: int) -> int:
    """Time in ms within which all idle partitions of a follower are examined.

    ``replica.lag.time.max.ms`` counts from a partition's last examination, because only an examination records that the
    follower is caught up.
    """
    return min(_MOST_EVERYTHING_MS, max(EVERYTHING_MS, max_lag_ms // _SHARE_OF_LAG))


class FetchContext(NamedTuple):
    """One request's partitions, in order, and its session, if any.

    ``is_incremental``: the session's response lists only changes.
    """

    wanted: Wanted
    session: "FetchSession | None"
    is_incremental: bool

    def response(self, fetched: Fetched) -> FetchResponse:
        """The response; if incremental, only partitions that changed since the last response."""
        session = self.session
        if session is None:
            return FetchResponse(_by_topic(fetched))
        changed = session.changes(fetched)
        return FetchResponse(_by_topic(changed if self.is_incremental else fetched), session_id=session.session_id)

    def empty_response(self) -> FetchResponse:
        """The response for a throttled client: no partitions, and the session stays unchanged."""
        session_id = self.session.session_id if self.session is not None and self.is_incremental else NO_SESSION
        return FetchResponse([], session_id=session_id)


class FetchSession:
    """The partitions that a client fetches, and the last response for each.

    A follower's fetch examines only ``due`` partitions. Idle partitions are due in turn within ``everything_ms``,
    because it takes 0.1 s to examine 10,000 partitions together.

    Attributes:
        session_id, is_follower, uses_topic_ids: constant; ids are unique within a broker.
        next_epoch: the session epoch of the next request, at least 1.
        wanted: in the order of examination.
        seen_count: the ``partition_changes`` count at the last examination.
    """

    __slots__ = (
        "_everything_ms", "_looked_count", "_move_count", "_places", "_round", "_round_ms", "_told", "_unfinished",
        "is_follower", "last_used_ms", "next_epoch", "seen_count", "session_id", "uses_topic_ids", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        session_id: int,
        wanted: Wanted,
        uses_topic_ids: bool,
        now_ms: int,
        everything_ms: int = EVERYTHING_MS,
        *,
        is_follower: bool = False,
    ) -> None:
        self.session_id = session_id
        self.is_follower = is_follower
        self.next_epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.wanted = wanted
        self.last_used_ms = now_ms
        self._told: dict[PartitionKey, tuple[int, int]] = {}  # last response's (high watermark, log start offset)
        self._places = {key: place for place, key in enumerate(wanted)} if is_follower else {}  # the order for ``due``
        self._move_count = len(self._places)
        self.seen_count = 0
        self._unfinished: set[PartitionKey] = set()  # see ``answered``
        self._everything_ms = everything_ms
        self._round: list[PartitionKey] = []  # to examine within _everything_ms from _round_ms
        self._round_ms = _NEVER_MS
        self._looked_count = 0  # number of partitions of _round that were examined

    def apply(self, changed: Wanted, request: FetchRequest) -> None:
        """Add or replace ``changed``, and remove the request's forgotten partitions."""
        for key in changed:
            if key not in self.wanted:
                self._move(key)
        self.wanted.update(changed)
        for forgotten in request.forgotten_topics:
            for partition in forgotten.partitions:
                key = (_topic_key(forgotten.topic, forgotten.topic_id), partition)
                self.wanted.pop(key, None)
                self._told.pop(key, None)
                self._places.pop(key, None)

    def due(
        self,
        request: FetchRequest,
        changed: set[PartitionKey] | None,
        now_ms: int,
        agrees: Callable[[PartitionKey, FetchPartition], bool],
    ) -> Wanted:
        """The partitions to examine, in order: those that the request lists, those that ``changed`` since
        ``seen_count`` (None: unknown, so all), those that were unfinished last time, and those whose turn it is.

        In other partitions, only the caught-up time and perhaps the log start offset could differ.

        ``agrees``: leader and follower have the same leader epoch. If not, one of them soon receives the newer epoch,
        which makes the partition due. Until then, the partition is examined only in its turn, because a LeaderAndIsr
        that reaches one broker first would otherwise cause thousands of errors.
        """
        if changed is None:
            self._begin_round(now_ms)
            return self.wanted
        turn = set(self._in_turn(now_ms))
        candidates = changed.union(_wanted(request), self._unfinished, turn)
        due = sorted(candidates & self._places.keys(), key=self._places.__getitem__)
        return {key: self.wanted[key] for key in due if key in turn or agrees(key, self.wanted[key])}

    def _move(self, key: PartitionKey) -> None:
        if self.is_follower:
            self._move_count += 1
            self._places[key] = self._move_count

    def _in_turn(self, now_ms: int) -> list[PartitionKey]:
        """The partitions whose turn it is. The first round begins with the session, whose first request examines all of
        them."""
        passed_ms = now_ms - self._round_ms
        done = min(len(self._round), len(self._round) * passed_ms // self._everything_ms)
        turn = self._round[self._looked_count : done]
        self._looked_count = done
        if passed_ms >= self._everything_ms:
            self._begin_round(now_ms)
        return turn

    def _begin_round(self, now_ms: int) -> None:
        self._round, self._round_ms, self._looked_count = list(self.wanted), now_ms, 0

    def answered(self, unfinished: Iterable[PartitionKey], seen_count: int) -> None:
        """Record a response. ``unfinished`` replaces the earlier unfinished partitions, all of which were examined.

        ``unfinished``: partitions with an error, records that the follower lacks, an unrecorded fetch position, or a
        follower that is neither in the ISR nor proposed for it.
        """
        self._unfinished = set(unfinished)
        self.seen_count = seen_count

    def changes(self, fetched: Fetched) -> Fetched:
        """Results with records, an error, a diverging epoch, a preferred replica, or a high watermark or log start
        offset that the client does not know."""
        changed = []
        for topic, result in fetched:
            key = (topic, result.partition)
            told = (result.high_watermark, result.log_start_offset)
            has_records = bool(result.records)
            if has_records and key in self.wanted:
                self.wanted[key] = self.wanted.pop(key)
                self._move(key)
            is_told_anyway = (
                has_records
                or result.error_code
                or result.diverging_epoch is not None
                or result.preferred_read_replica >= 0
            )
            if is_told_anyway or self._told.get(key) != told:
                changed.append((topic, result))
            if result.error_code:
                self._told.pop(key, None)  # a later response then also reports that the error has ended
            elif key in self.wanted:  # unless it was forgotten while the request waited
                self._told[key] = told
        return changed


class FetchSessions:
    """The sessions of a broker: at most ``slots``, with as many partitions as ``memory`` allows.

    ``max_lag_ms``: replica.lag.time.max.ms.
    """

    def __init__(
        self,
        slots: int,
        new_id: Callable[[], int],
        memory: MemoryPool = UNBOUNDED,
        is_known: IsKnown = lambda topic, partition: True,
        max_lag_ms: int = 0,
    ) -> None:
        self._slots = slots
        self._new_id = new_id
        self._memory = memory
        self._is_known = is_known
        self._everything_ms = everything_ms_for(max_lag_ms)
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.wanted) for session in self._sessions.values())

    def open(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """The partitions to fetch, from a request's session fields.

        Raises: ApiError for the whole response: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
            FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            wanted = _wanted(request)
            if request.session_epoch == FINAL_EPOCH or not wanted:
                return FetchContext(wanted, None, False)
            is_follower, session = request.replica_id >= 0, None
            if is_follower or all(self._is_known(topic, partition) for topic, partition in wanted):
                session = self._begin(wanted, uses_topic_ids, now_ms, is_follower)
            return FetchContext(wanted, session, False)
        return self._continue(request, uses_topic_ids, now_ms)

    def peek(self, request: FetchRequest) -> Wanted:
        """The partitions that ``open`` would return for a request without errors. Does not change the session."""
        session = self._sessions.get(request.session_id)
        if session is None or request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            return _wanted(request)
        forgotten = {
            (_topic_key(topic, topic_id), partition)
            for topic, topic_id, partitions in request.forgotten_topics
            for partition in partitions
        }
        return {key: wanted for key, wanted in (session.wanted | _wanted(request)).items() if key not in forgotten}

    def take_back(self, context: FetchContext) -> None:
        """Remove the session that the request began, because the response is empty."""
        if context.session is not None and not context.is_incremental:
            self._remove(context.session.session_id)

    def _begin(
        self, wanted: Wanted, uses_topic_ids: bool, now_ms: int, is_follower: bool
    ) -> FetchSession | None:
        """Begin a session, evicting others if necessary. None if there is no room."""
        size_bytes = len(wanted) * PARTITION_BYTES
        if is_follower and size_bytes > self._memory.keepable_bytes + self._consumers_bytes():
            return None
        while len(self._sessions) >= self._slots or not self._memory.keep(size_bytes):
            given_up = self._to_give_up(now_ms, is_follower)
            if given_up is None:
                return None
            self._remove(given_up.session_id)
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(
            session_id, wanted, uses_topic_ids, now_ms, self._everything_ms, is_follower=is_follower
        )
        self._sessions[session_id] = session
        return session

    def _consumers_bytes(self) -> int:
        return sum(len(each.wanted) for each in self._sessions.values() if not each.is_follower) * PARTITION_BYTES

    def _to_give_up(self, now_ms: int, for_follower: bool) -> FetchSession | None:
        """The session to evict: the least recently used one if it is stale; otherwise, for a follower, the least
        recently used consumer's session."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.last_used_ms >= MIN_EVICTION_MS:
            return oldest
        return next((each for each in self._sessions.values() if not each.is_follower), None) if for_follower else None

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._memory.drop(len(session.wanted) * PARTITION_BYTES)

    def _continue(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.next_epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        session.last_used_ms = now_ms
        session.next_epoch = 1 if session.next_epoch == _MAX_EPOCH else session.next_epoch + 1
        if request.topics or request.forgotten_topics:
            self._change(session, request)
        if not session.wanted:
            self._remove(session.session_id)
            return FetchContext({}, None, False)
        return FetchContext(session.wanted, session, True)

    def _change(self, session: FetchSession, request: FetchRequest) -> None:
        """Apply a request's changes. Raises ApiError(FETCH_SESSION_ID_NOT_FOUND) if an added partition cannot be
        remembered; the client then sends a full request."""
        changed = _wanted(request)
        added = [key for key in changed if key not in session.wanted]
        size_bytes = len(added) * PARTITION_BYTES
        is_kept = session.is_follower or all(self._is_known(topic, partition) for topic, partition in added)
        if not is_kept or not self._memory.keep(size_bytes):
            self._remove(session.session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        before = len(session.wanted) + len(added)
        session.apply(changed, request)
        self._memory.drop((before - len(session.wanted)) * PARTITION_BYTES)


def _topic_key(topic: str | None, topic_id: bytes | None) -> TopicKey:
    return topic if topic_id is None and topic is not None else topic_id or b""


def _wanted(request: FetchRequest) -> Wanted:
    return {
        (_topic_key(topic, topic_id), partition.partition): partition
        for topic, topic_id, partitions in request.topics
        for partition in partitions
    }


def _by_topic(fetched: Iterable[tuple[TopicKey, FetchedPartition]]) -> Sequence[FetchedTopic]:
    topics: dict[TopicKey, list[FetchedPartition]] = {}
    for topic, result in fetched:
        topics.setdefault(topic, []).append(result)
    return [
        FetchedTopic(None, topic, results) if isinstance(topic, bytes) else FetchedTopic(topic, None, results)
        for topic, results in topics.items()
    ]

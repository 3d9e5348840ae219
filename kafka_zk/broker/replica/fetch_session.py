"""Incremental fetch (KIP-227): the broker remembers what a client wants, requests and answers carry only changes.

A request says with ``session_id`` and ``session_epoch`` what it is: (0, -1) no session; (any, 0) begin one, closing the
old; (id, -1) close it; (id, n) the n-th request of session id. Epochs go from 1 up and wrap to 1. A partition that
brought records goes to the end of its session, so that under ``max_bytes`` all have their turn.

What is remembered has a share of the broker's memory. A broker may answer without a session at any time, then the
client asks for everything again. So it does when that share is used up; and as long as a consumer asks for partitions
that the broker does not know, since those have no end. A follower is allowed to: it may hear of a partition before its
leader does. If there is no room, it replaces the session of a consumer.

Pure: no clock, no randomness; ids come from the caller. Tests: tests/kafka_zk/broker/replica/test_fetch_session.py.
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
"""A session used within this time is not given up for a new one (min.incremental.fetch.session.eviction.ms)."""

EVERYTHING_MS = 500
"""Partitions without traffic are fetched as often anyway, by Kafka's default of ``replica.fetch.wait.max.ms``."""

_MOST_EVERYTHING_MS = 5_000
_SHARE_OF_LAG = 6

_NEVER_MS = -(2**62)

PARTITION_BYTES = 512
"""What remembering one partition takes, measured: 350 when the session is new, up to 900 of a follower's that all get
records at once."""

TopicKey = str | bytes  # a name, or an id (16 bytes) from version 13 on
PartitionKey = tuple[TopicKey, int]
Wanted = dict[PartitionKey, FetchPartition]
Fetched = list[tuple[TopicKey, FetchedPartition]]
IsKnown = Callable[[TopicKey, int], bool]


def everything_ms_for(max_lag_ms: int) -> int:
    """In how long a follower's partitions are looked at once, though nothing happens to them. Only then it is noted
    that the follower was caught up; it has ``replica.lag.time.max.ms`` from there on, when records come again."""
    return min(_MOST_EVERYTHING_MS, max(EVERYTHING_MS, max_lag_ms // _SHARE_OF_LAG))


class FetchContext(NamedTuple):
    """One request's view: what it wants, in order, and the session that it belongs to, if any."""

    wanted: Wanted
    session: "FetchSession | None"
    is_incremental: bool

    def response(self, fetched: Fetched) -> FetchResponse:
        """The answer: everything, or for an incremental request what changed since the last one."""
        session = self.session
        if session is None:
            return FetchResponse(_by_topic(fetched))
        changed = session.changes(fetched)
        return FetchResponse(_by_topic(changed if self.is_incremental else fetched), session_id=session.session_id)


    def empty_response(self) -> FetchResponse:
        """For a client that is throttled: nothing, and what the session knows of the client stays as it is."""
        session_id = self.session.session_id if self.session is not None and self.is_incremental else NO_SESSION
        return FetchResponse([], session_id=session_id)


class FetchSession:
    """What one client wants, and what it was last told about each partition.

    A follower's fetch looks at those that are ``due`` only: a leader of a thousand partitions would else look at all of
    them for each record that one of them gets. ``seen_count``: which ``partition_changes`` the last look knew of.
    ``everything_ms``: in how long it looks at each, by and by: all of ten thousand at once take a fetch 0.1 s, and on a
    busy machine the next one would have to look at all of them again.
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
        self._told: dict[PartitionKey, tuple[int, int]] = {}  # high watermark, log start offset
        self._places = {key: place for place, key in enumerate(wanted)} if is_follower else {}  # for ``due``
        self._move_count = len(self._places)
        self.seen_count = 0
        self._unfinished: set[PartitionKey] = set()
        self._everything_ms = everything_ms
        self._round: list[PartitionKey] = []  # what is looked at since _round_ms, whatever happens
        self._round_ms = _NEVER_MS
        self._looked_count = 0

    def apply(self, changed: Wanted, request: FetchRequest) -> None:
        """Take over what an incremental request adds or moves (``changed``), and what it forgets."""
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
        """What to look at for the request, in order: what it asks for anew, what has ``changed`` since ``seen_count``
        (None: that is not known), what was not finished last time, and whose turn it is.

        For the others only times have changed (when the follower was caught up), and maybe the log start offset.

        ``agrees``: whether leader and follower are in the same leader epoch. If not, one of them will soon hear of the
        newer one, and the partition is due again. Until then it is left out except in its turn: else thousands of
        errors would be exchanged whenever a LeaderAndIsr reaches one broker before the other.
        """
        if changed is None:
            self._begin_round(now_ms)
            return self.wanted
        turn = set(self._in_turn(now_ms))
        candidates = changed.union(_wanted(request), self._unfinished, turn)
        due = sorted(candidates & self._places.keys(), key=self._places.__getitem__)
        return {key: self.wanted[key] for key in due if key in turn or agrees(key, self.wanted[key])}

    def _move(self, key: PartitionKey) -> None:
        """To the end."""
        if self.is_follower:
            self._move_count += 1
            self._places[key] = self._move_count

    def _in_turn(self, now_ms: int) -> list[PartitionKey]:
        """As many as there is time gone; everything was looked at when the session began."""
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
        """The answer leaves. ``unfinished``: with errors, with more in the log than the follower has, where what it has
        is not recorded yet, or where it is neither in the ISR nor proposed for it, as it may be by the next look;
        whatever was unfinished before was looked at."""
        self._unfinished = set(unfinished)
        self.seen_count = seen_count

    def changes(self, fetched: Fetched) -> Fetched:
        """Those with records, errors, a diverging epoch, a preferred replica, or another high watermark or log start
        offset than the client knows."""
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
                self._told.pop(key, None)  # so that its end is told, too
            elif key in self.wanted:  # not forgotten while the request waited
                self._told[key] = told
        return changed


class FetchSessions:
    """The sessions of a broker, at most ``slots`` of them, and as many partitions as ``memory`` has room to keep.

    ``is_known``: whether the broker knows a partition. ``max_lag_ms``: replica.lag.time.max.ms.
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
        """How many partitions all sessions remember."""
        return sum(len(session.wanted) for session in self._sessions.values())

    def open(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """What the request wants.

        Raises: ApiError for the whole answer: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
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

    def take_back(self, context: FetchContext) -> None:
        """The request gets an empty answer: if it began a session, there is none."""
        if context.session is not None and not context.is_incremental:
            self._remove(context.session.session_id)

    def _begin(
        self, wanted: Wanted, uses_topic_ids: bool, now_ms: int, is_follower: bool
    ) -> FetchSession | None:
        """A new session if there is room, or sessions that make room for it."""
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
        """The least recently used session if it is stale; else, for a follower, the least recently used consumer's."""
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
        """Raises ApiError(FETCH_SESSION_ID_NOT_FOUND), after which the client asks for everything anew, when it adds
        what shall not be remembered."""
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

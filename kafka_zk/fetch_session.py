"""Incremental fetch (KIP-227): the broker remembers what a client wants, requests and answers carry only changes.

A request says with ``session_id`` and ``session_epoch`` what it is: (0, -1) no session; (any, 0) begin one, closing the
old; (id, -1) close it; (id, n) the n-th request of session id. Epochs go from 1 up and wrap to 1. A partition that
brought records goes to the end of its session, so that under ``max_bytes`` all have their turn.

Pure: no clock, no randomness; ids come from the caller. Tests: tests/kafka_zk/test_fetch_session.py.
Source: FetchSession.scala@3.9.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_EPOCH = 0x7FFFFFFF
MIN_EVICTION_MS = 120_000
"""A session used within this time is not given up for a new one (min.incremental.fetch.session.eviction.ms)."""

TopicKey = str | bytes  # a name, or an id (16 bytes) from version 13 on
PartitionKey = tuple[TopicKey, int]
Wanted = dict[PartitionKey, FetchPartition]
Fetched = list[tuple[TopicKey, FetchedPartition]]


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


class FetchSession:
    """What one client wants, and what it was last told about each partition."""

    __slots__ = ("_told", "last_used_ms", "next_epoch", "session_id", "uses_topic_ids", "wanted")

    def __init__(self, session_id: int, wanted: Wanted, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.next_epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.wanted = wanted
        self.last_used_ms = now_ms
        self._told: dict[PartitionKey, tuple[int, int]] = {}  # high watermark, log start offset

    def apply(self, request: FetchRequest) -> None:
        """Take over what an incremental request adds, moves or forgets."""
        self.wanted.update(_wanted(request))
        for forgotten in request.forgotten_topics:
            for partition in forgotten.partitions:
                key = (_topic_key(forgotten.topic, forgotten.topic_id), partition)
                self.wanted.pop(key, None)
                self._told.pop(key, None)

    def changes(self, fetched: Fetched) -> Fetched:
        """Those with records, errors, or another high watermark or log start offset than the client knows."""
        changed = []
        for topic, result in fetched:
            key = (topic, result.partition)
            told = (result.high_watermark, result.log_start_offset)
            if result.records and key in self.wanted:
                self.wanted[key] = self.wanted.pop(key)
            if result.records or result.error_code or self._told.get(key) != told:
                changed.append((topic, result))
            if result.error_code:
                self._told.pop(key, None)  # so that its end is told, too
            else:
                self._told[key] = told
        return changed


class FetchSessions:
    """The sessions of a broker, at most ``slots`` of them."""

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, request: FetchRequest, uses_topic_ids: bool, now_ms: int) -> FetchContext:
        """What the request wants.

        Raises: ApiError for the whole answer: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
            FETCH_SESSION_TOPIC_ID_ERROR.
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wanted = _wanted(request)
            if request.session_epoch == FINAL_EPOCH or not wanted:
                return FetchContext(wanted, None, False)
            return FetchContext(wanted, self._begin(wanted, uses_topic_ids, now_ms), False)
        return self._continue(request, uses_topic_ids, now_ms)

    def _begin(self, wanted: Wanted, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session if there is room, or a session that was not used for long."""
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
                return None
            del self._sessions[oldest.session_id]
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = FetchSession(session_id, wanted, uses_topic_ids, now_ms)
        self._sessions[session_id] = session
        return session

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
        session.apply(request)
        if not session.wanted:
            del self._sessions[session.session_id]
            return FetchContext({}, None, False)
        return FetchContext(session.wanted, session, True)


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

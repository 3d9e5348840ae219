"""The fetcher's side of incremental fetch sessions (KIP-227); ``fetch_session`` is the broker's.

A full request lists every partition. If the response has a session id, later requests list only changes. After an error
or an unexpected response, the next request is full again.

Pure. Source: FetchSessionHandler.java@3.9.
"""

from typing import NamedTuple

from kafka_zk.broker.replica.fetch_session import INITIAL_EPOCH, NO_SESSION, PartitionKey, TopicKey, Wanted
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

_MAX_EPOCH = 0x7FFFFFFF


class SessionRequest(NamedTuple):
    """The part of a Fetch request that depends on the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics: list[ForgottenTopic]


class FetchSessionHandler:
    """Call ``want`` and ``forget`` for changes, send ``next_request``, then call ``take_response`` or ``failed``.

    There is at most one request at a time. ``wanted``: in fetch order.
    """

    def __init__(self) -> None:
        self.wanted: Wanted = {}
        self._asked: Wanted = {}  # the partitions that the broker knows after the last request
        self._changed: dict[PartitionKey, None] = {}  # partitions that may differ between ``wanted`` and ``_asked``
        self._session_id = NO_SESSION  # the session to continue, or to close with the next full request
        self._epoch = INITIAL_EPOCH  # epoch of the next request, which is full if this is INITIAL_EPOCH

    @property
    def is_incremental(self) -> bool:
        """Whether the next request lists only changes."""
        return self._epoch != INITIAL_EPOCH

    def want(self, topic: TopicKey, partition: FetchPartition) -> None:
        """Fetch the partition with these parameters, after all others."""
        key = (topic, partition.partition)
        self.wanted.pop(key, None)
        self.wanted[key] = partition
        self._changed[key] = None

    def forget(self, topic: TopicKey, partition: int) -> None:
        key = (topic, partition)
        if self.wanted.pop(key, None) is not None:
            self._changed[key] = None

    def asked(self, topic: TopicKey, partition: int) -> FetchPartition | None:
        """The parameters in effect in the last request; None if it did not fetch the partition."""
        return self._asked.get((topic, partition))

    def next_request(self) -> SessionRequest:
        if not self.is_incremental:
            self._changed.clear()
            self._asked = dict(self.wanted)
            return SessionRequest(self._session_id, INITIAL_EPOCH, _by_topic(self.wanted), [])
        to_send: Wanted = {}
        to_forget: list[PartitionKey] = []
        for key in self._changed:
            partition = self.wanted.get(key)
            if partition is None:
                if self._asked.pop(key, None) is not None:
                    to_forget.append(key)
            elif self._asked.get(key) != partition:
                to_send[key] = self._asked[key] = partition
        self._changed.clear()
        return SessionRequest(self._session_id, self._epoch, _by_topic(to_send), _forgotten(to_forget))

    def take_response(self, response: FetchResponse) -> bool:
        """Returns False if the response must be ignored, and another request sent."""
        if response.error_code:
            self._restart(closes=response.error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return False
        if not self._fits(response):
            self._restart(closes=True)
            return False
        if response.session_id == NO_SESSION:
            self._restart(closes=False)
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1
        return True

    def failed(self) -> None:
        """Begin a new session, because the broker's session epoch is unknown without a response."""
        self._restart(closes=True)

    def restart(self) -> None:
        """Forget all partitions, and close the session with the next request."""
        self.wanted.clear()
        self._restart(closes=True)

    def _restart(self, *, closes: bool) -> None:
        self._epoch = INITIAL_EPOCH
        if not closes:
            self._session_id = NO_SESSION

    def _fits(self, response: FetchResponse) -> bool:
        """True if a full response lists exactly the requested partitions, or if an incremental one has this session's
        id and lists only its partitions."""
        answered = {
            (_key(topic.topic, topic.topic_id), fetched.partition)
            for topic in response.topics
            for fetched in topic.partitions
        }
        if not self.is_incremental:
            return answered == self._asked.keys()
        return response.session_id in (NO_SESSION, self._session_id) and answered <= self._asked.keys()


def _key(topic: str | None, topic_id: bytes | None) -> TopicKey:
    return topic_id if topic_id is not None else topic or ""


def _by_topic(wanted: Wanted) -> list[FetchTopic]:
    topics: dict[TopicKey, list[FetchPartition]] = {}
    for (topic, _), partition in wanted.items():
        topics.setdefault(topic, []).append(partition)
    return [FetchTopic(*_name_and_id(topic), partitions) for topic, partitions in topics.items()]


def _forgotten(keys: list[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[TopicKey, list[int]] = {}
    for topic, partition in keys:
        topics.setdefault(topic, []).append(partition)
    return [ForgottenTopic(*_name_and_id(topic), partitions) for topic, partitions in topics.items()]


def _name_and_id(topic: TopicKey) -> tuple[str | None, bytes | None]:
    return (None, topic) if isinstance(topic, bytes) else (topic, None)

"""The client's view of a group's coordinator: found, lost, found again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import BrokerError, ClientClosed
from kafka_zk.clients.connection.group_coordinator import NO_OFFSET, Committer, GroupCoordinator
from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
FindResponse = codec.response(ApiKey.FIND_COORDINATOR)
CommitResponse = codec.response(ApiKey.OFFSET_COMMIT)
FetchResponse = codec.response(ApiKey.OFFSET_FETCH)


class Brokers:
    """Stands for Cluster and its connections. ``coordinator``: the port of the group's coordinator, or an error.

    ``codes``: each is the response to one commit or fetch, in order; None is a lost connection.
    """

    def __init__(self, *, highest: int = 6) -> None:
        self.coordinator: int | ErrorCode = 9092
        self.highest = highest
        self.codes: list[ErrorCode | None] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.asked: list[tuple[int, ApiKey, int]] = []
        self.committers: list[tuple[str, int]] = []
        self.port = 0
        self.purposes: list[str] = []

    async def request_any(self, api_key: ApiKey, message: Any) -> Any:
        code = self.coordinator if isinstance(self.coordinator, ErrorCode) else ErrorCode.NONE
        port = -1 if code else int(self.coordinator)
        if self.highest < 4:
            return FindResponse(error_code=code, host="h", port=port, coordinators=[])
        found = FindResponse.Coordinator(key=message.coordinator_keys[0], error_code=code, host="h", port=port)
        return FindResponse(coordinators=[found])

    async def connection_to(self, host: str, port: int, purpose: str) -> Brokers:
        self.port = port
        self.purposes.append(purpose)
        return self

    def version_for(self, api_key: ApiKey) -> int:
        return BROKER_VERSIONS[api_key][1]

    async def request(self, api_key: ApiKey, message: Any, *, version: int, timeout_s: float) -> Any:
        codec.encode_body(message, api_key, version)  # a connection is ready
        self.asked.append((self.port, api_key, version))
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is None:
            raise ConnectionError("lost")
        answer: Callable[[Any, ErrorCode], Any] = self._commit if api_key is ApiKey.OFFSET_COMMIT else self._fetch
        return answer(message, code)

    def _commit(self, message: Any, code: ErrorCode) -> Any:
        self.committers.append((message.member_id, message.generation_id_or_member_epoch))
        topics = []
        for topic in message.topics:
            of = CommitResponse.OffsetCommitResponseTopic
            partitions = []
            for each in topic.partitions:
                if not code:
                    self.offsets[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
                made = of.OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                partitions.append(made)
            topics.append(of(name=topic.name, partitions=partitions))
        return CommitResponse(topics=topics)

    def _fetch(self, message: Any, code: ErrorCode) -> Any:
        of = FetchResponse.OffsetFetchResponseTopic
        topics = []
        for topic in message.topics:
            partitions = []
            for index in topic.partition_indexes:
                offset = self.offsets.get(TopicPartition(topic.name, index), -1)
                partitions.append(
                    of.OffsetFetchResponsePartition(partition_index=index, committed_offset=offset, error_code=0)
                )
            topics.append(of(name=topic.name, partitions=partitions))
        return FetchResponse(error_code=code, topics=topics)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def coordinator_of(clock: Clock, brokers: Any) -> GroupCoordinator:
    return GroupCoordinator(clock, ClientConfig(retry_backoff_ms=100), brokers, "g")


def result(waiting: Deferred[Any]) -> Any:
    results: list[Any] = []
    waiting.addBoth(results.append)
    assert results, "there is no result yet"
    if hasattr(results[0], "raiseException"):
        results[0].raiseException()
    return results[0]


@pytest.mark.parametrize("highest", [3, 6])
def test_offsets_are_committed_and_found_again(clock: Clock, highest: int) -> None:
    brokers = Brokers(highest=highest)
    coordinator = coordinator_of(clock, brokers)
    codes = result(run(coordinator.commit({A: 5}, Committer("m", 3))))
    assert codes == {A: ErrorCode.NONE} and brokers.committers == [("m", 3)]
    assert result(run(coordinator.committed([A, B]))) == {A: 5, B: NO_OFFSET}
    assert brokers.asked == [(9092, ApiKey.OFFSET_COMMIT, 9), (9092, ApiKey.OFFSET_FETCH, 7)]


def test_a_coordinator_that_is_not_there_yet_is_waited_for(clock: Clock, brokers: Brokers) -> None:
    brokers.coordinator = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = run(coordinator_of(clock, brokers).find())
    clock.advance(0.1)
    assert not found.called
    brokers.coordinator = 9093
    clock.advance(0.1)
    assert result(found) == ("h", 9093)


@pytest.mark.parametrize("code", [None, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_fetch_is_repeated_until_it_is_answered_wherever_the_group_moves(
    clock: Clock, brokers: Brokers, code: ErrorCode | None
) -> None:
    brokers.offsets[A] = 7
    brokers.codes = [code]
    fetch = run(coordinator_of(clock, brokers).committed([A]))
    brokers.coordinator = 9093
    clock.advance(0.1)
    assert result(fetch) == {A: 7}
    moved = code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [port for port, _, _ in brokers.asked] == [9092, 9093 if moved else 9092]


def test_a_commit_is_tried_once_and_a_coordinator_that_refuses_it_is_looked_for_again(
    clock: Clock, brokers: Brokers
) -> None:
    coordinator = coordinator_of(clock, brokers)
    brokers.codes = [ErrorCode.NOT_COORDINATOR, None]
    assert result(run(coordinator.commit({A: 1}))) == {A: ErrorCode.NOT_COORDINATOR}
    brokers.coordinator = 9093
    assert result(run(coordinator.commit({A: 1}))) == {A: ErrorCode.NETWORK_EXCEPTION}
    assert [port for port, _, _ in brokers.asked] == [9092, 9093]


def test_what_waiting_does_not_cure_is_raised(clock: Clock, brokers: Brokers) -> None:
    brokers.coordinator = ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        result(run(coordinator_of(clock, brokers).find()))
    brokers.coordinator = 9092
    brokers.codes = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        result(run(coordinator_of(clock, brokers).committed([A])))


def test_a_fetch_is_repeated_until_the_client_is_closed(clock: Clock, brokers: Brokers) -> None:
    coordinator = coordinator_of(clock, brokers)
    brokers.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 20
    endless = run(coordinator.committed([A]))
    clock.pump([0.1] * 10)
    assert not endless.called
    coordinator.close()
    clock.advance(0.1)
    with pytest.raises(ClientClosed):
        result(endless)


def test_a_request_that_is_cancelled_ends_at_once(
    clock: Clock, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled request must not look like a lost connection, after which the client would retry."""
    hanging: Deferred[Any] = Deferred()

    async def hang(*_: Any, **__: Any) -> Any:
        await hanging

    monkeypatch.setattr(brokers, "request", hang)
    fetch = run(coordinator_of(clock, brokers).committed([A]))
    fetch.cancel()
    with pytest.raises(CancelledError):
        result(fetch)
    assert clock.getDelayedCalls() == []


class Withholding(Brokers):
    """Brokers that respond to JoinGroup when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.joining: Deferred[None] = Deferred()

    async def request(self, api_key: ApiKey, message: Any, *, version: int, timeout_s: float) -> Any:
        if api_key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
            return await super().request(api_key, message, version=version, timeout_s=timeout_s)
        self.asked.append((self.port, api_key, version))
        if api_key is ApiKey.JOIN_GROUP:
            await self.joining
        return None


@pytest.mark.parametrize("is_lost", [False, True])
def test_nothing_is_sent_behind_a_join_whose_answer_is_withheld(clock: Clock, is_lost: bool) -> None:
    brokers = Withholding()
    coordinator = coordinator_of(clock, brokers)
    joining = run(coordinator.ask(ApiKey.JOIN_GROUP, None))
    commit, fetch = run(coordinator.commit({A: 5})), run(coordinator.committed([B]))
    assert [api_key for _, api_key, _ in brokers.asked] == [ApiKey.JOIN_GROUP]
    brokers.joining.errback(ConnectionError("lost")) if is_lost else brokers.joining.callback(None)
    joining.addErrback(lambda failure: failure.trap(BrokerError))
    assert result(commit) == {A: ErrorCode.NONE} and result(fetch) == {B: NO_OFFSET}


def test_leaving_goes_past_a_join_whose_answer_is_withheld(clock: Clock) -> None:
    brokers = Withholding()
    coordinator = coordinator_of(clock, brokers)
    run(coordinator.ask(ApiKey.JOIN_GROUP, None))
    result(run(coordinator.ask(ApiKey.LEAVE_GROUP, None)))
    assert len(set(brokers.purposes)) == 2

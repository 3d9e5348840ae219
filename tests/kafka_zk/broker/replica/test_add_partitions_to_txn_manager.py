"""Verifying transactions: which questions share a request, which need none, and how errors are mapped."""

from collections.abc import Awaitable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred, succeed

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.add_partitions_to_txn_manager import AddPartitionsToTxnManager, CoordinatorConnection
from kafka_zk.broker.replica.transaction_verification import RefusedPartitions, TransactionToVerify
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
Response = codec.response(ApiKey.ADD_PARTITIONS_TO_TXN)
Transaction = Response.AddPartitionsToTxnResult
Topic = Transaction.AddPartitionsToTxnTopicResult
Partition = Topic.AddPartitionsToTxnPartitionResult


class Broker:
    """A broker that responds to the last request only when the test says so."""

    def __init__(self, highest: int = 5) -> None:
        self.versions: dict[int, tuple[int, int]] = {ApiKey.ADD_PARTITIONS_TO_TXN: (0, highest)}
        self.connected_to_broker = True
        self.requests: list[tuple[Any, int]] = []
        self._answer: Deferred[Any] = Deferred()

    def request(self, api_key: int, message: Any, *, version: int) -> Awaitable[Any]:
        codec.encode_body(message, api_key, version)
        self.requests.append((message, version))
        self._answer = Deferred()
        return self._answer

    def disconnect(self) -> None:
        self.connected_to_broker = False

    def answer(self, codes: dict[str, dict[TopicPartition, ErrorCode]], error: ErrorCode = ErrorCode.NONE) -> None:
        results = [
            Transaction(
                transactional_id=name,
                topic_results=[
                    Topic(
                        name="t",
                        results_by_partition=[
                            Partition(partition_index=tp.partition, partition_error_code=code)
                            for tp, code in found.items()
                        ],
                    )
                ],
            )
            for name, found in codes.items()
        ]
        self._answer.callback(Response(throttle_time_ms=0, error_code=error, results_by_transaction=results))

    def fail(self) -> None:
        self._answer.errback(ConnectionError("gone"))


class World:
    """A manager with one coordinator."""

    def __init__(self, broker: Broker | None = None) -> None:
        self.broker = broker or Broker()
        self.coordinator: int | None = 1
        self.own: RefusedPartitions = {}
        self.manager = AddPartitionsToTxnManager(
            0, lambda name: self.coordinator, self._connect, lambda transaction, tps: self.own
        )
        self.told: dict[str, RefusedPartitions] = {}

    def _connect(self, broker_id: int) -> Awaitable[CoordinatorConnection]:
        assert broker_id == 1
        return succeed(self.broker)

    def ask(self, name: str, *tps: TopicPartition, epoch: int = 0, label: str = "", knows: bool = False) -> None:
        async def asked() -> None:
            refused = self.manager.ask(TransactionToVerify(name, 7, epoch, knows), tps or (P0,))
            self.told[label or name] = await refused if isinstance(refused, Awaitable) else refused

        ensureDeferred(asked())


def test_what_comes_while_a_broker_answers_is_asked_together() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.ask(name, P0, P1)
    assert [[each.transactional_id for each in message.transactions] for message, _ in world.broker.requests] == [["a"]]
    world.broker.answer({"a": {P0: ErrorCode.NONE, P1: ErrorCode.INVALID_TXN_STATE}})
    assert world.told == {"a": {P1: ErrorCode.INVALID_TXN_STATE}}
    message, version = world.broker.requests[1]
    assert version == 5 and all(each.verify_only for each in message.transactions)
    assert [each.transactional_id for each in message.transactions] == ["b", "c"]
    world.broker.answer({"b": {P0: ErrorCode.NONE}})
    assert world.told["b"] == {} and world.told["c"] == dict.fromkeys((P0, P1), ErrorCode.NETWORK_EXCEPTION)


def test_a_newer_question_takes_the_place_of_an_older_one() -> None:
    world = World()
    world.ask("a", label="under way")
    world.ask("a", label="first")
    world.ask("a", label="again")
    assert world.told == {"first": {P0: ErrorCode.NETWORK_EXCEPTION}}
    world.ask("a", epoch=1, label="newer epoch")
    assert world.told["again"] == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    world.ask("a", epoch=0, label="older epoch")
    assert world.told["older epoch"] == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    world.broker.answer({"a": {P0: ErrorCode.NONE}})
    world.broker.answer({"a": {P0: ErrorCode.NONE}})
    assert world.told["under way"] == world.told["newer epoch"] == {}


def test_who_is_told_of_a_newer_question_may_ask_again_at_once() -> None:
    """The caller sends its next request from the callback of the failed one."""
    world = World()
    world.ask("a", label="under way")
    asking = maybeDeferred(world.manager.ask, TransactionToVerify("a", 7, 0), [P0])
    asking.addCallback(lambda codes: world.ask("a", P1, label="next"))
    world.ask("a", label="newer")
    assert world.told == {"newer": {P0: ErrorCode.NETWORK_EXCEPTION}}
    world.broker.answer({"a": {}})
    world.broker.answer({"a": {P1: ErrorCode.NONE}})
    assert world.told == {"under way": {}, "newer": {P0: ErrorCode.NETWORK_EXCEPTION}, "next": {}}


@pytest.mark.parametrize(
    ("said", "knows", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_producers_get_errors_that_they_know(said: ErrorCode, knows: bool, told: ErrorCode) -> None:
    world = World()
    world.ask("a", knows=knows)
    world.broker.answer({"a": {P0: said}})
    assert world.told == {"a": {P0: told}}


def test_without_an_answer_the_producer_asks_again() -> None:
    world = World()
    world.ask("a")
    world.broker.fail()
    assert world.told == {"a": {P0: ErrorCode.NETWORK_EXCEPTION}}
    world.ask("b")
    world.broker.answer({}, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert world.told["b"] == {P0: ErrorCode.INVALID_TXN_STATE}
    world.coordinator = None
    world.ask("c")
    assert world.told["c"] == {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_coordinator_that_cannot_verify_is_believed() -> None:
    """The coordinator is an older broker in a rolling upgrade; Kafka accepts the append, too."""
    world = World(Broker(highest=3))
    world.ask("a")
    assert world.told == {"a": {}} and not world.broker.requests


def test_a_broker_that_stops_asks_nobody() -> None:
    world = World()
    world.ask("a", label="under way")
    world.ask("a", label="waits")
    world.manager.close()
    assert world.told == {"waits": {P0: ErrorCode.COORDINATOR_NOT_AVAILABLE}}
    assert not world.broker.connected_to_broker
    world.broker.fail()
    assert world.told["under way"] == {P0: ErrorCode.NETWORK_EXCEPTION}


def test_what_the_broker_itself_coordinates_is_looked_up_at_once() -> None:
    world = World()
    world.coordinator = 0
    world.own = {P1: ErrorCode.TRANSACTION_ABORTABLE}
    world.ask("knows", P0, P1, knows=True)
    world.ask("old", P0, P1)
    assert world.told == {"knows": {P1: ErrorCode.TRANSACTION_ABORTABLE}, "old": {P1: ErrorCode.INVALID_TXN_STATE}}
    assert not world.broker.requests

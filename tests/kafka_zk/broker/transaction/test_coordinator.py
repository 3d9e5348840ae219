"""The coordinator over a real log: what it remembers, loads, unloads and forgets."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.process.transaction_verifications import coordinator_of
from kafka_zk.broker.transaction import state_manager
from kafka_zk.broker.transaction.appends import TransactionLog
from kafka_zk.broker.transaction.config import TransactionConfig
from kafka_zk.broker.transaction.memory import ID_BYTES
from kafka_zk.broker.transaction.metadata import LAST_EPOCH
from kafka_zk.broker.transaction.producer_ids import ProducerIdManager
from kafka_zk.broker.transaction.records import encode_key
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch, Result
from kafka_zk.broker.transaction.state_manager import TransactionStateManager
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.kafka_zk.broker.conftest import Harness

T0 = TopicPartition("t", 0)
NONE = ErrorCode.NONE
NOW_MS = 1_700_000_000_000


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness(**{"transaction.state.log.num.partitions": "1"})
    made.lead("t")
    made.lead(TRANSACTION_STATE_TOPIC)
    turn(made)
    at(made, NOW_MS)
    return made


def at(broker: Harness, wall_ms: int) -> None:
    """Set the clock to this time."""
    broker.clock.wall_ms = lambda: wall_ms  # type: ignore[method-assign]


def lead(broker: Harness, leader_epoch: int, **state: Any) -> None:
    topic_id = broker.services.metadata.topic_ids[TRANSACTION_STATE_TOPIC]
    assert broker.lead_again(TRANSACTION_STATE_TOPIC, topic_id, leader_epoch=leader_epoch, **state) == NONE
    turn(broker)


def move_away(broker: Harness, leader_epoch: int) -> None:
    lead(broker, leader_epoch, leader=1, isr=[0, 1], replicas=[0, 1])


def turn(broker: Harness) -> None:
    for _ in range(20):
        broker.clock.advance(0)


def asked(outcome: Any) -> list[Any]:
    """The result, once there is one."""
    if isinstance(outcome, ErrorCode):
        return [outcome]
    results: list[Any] = []
    ensureDeferred(outcome).addCallback(results.append)
    return results


def init(broker: Harness, who: str = "x", timeout_ms: int = 60_000) -> Result:
    (result,) = asked(broker.services.transactions.init_producer_id(who, timeout_ms, None))
    assert isinstance(result, Result)
    return result


def begin(broker: Harness, who: str = "x", timeout_ms: int = 60_000) -> ProducerIdAndEpoch:
    producer = init(broker, who, timeout_ms).producer
    assert asked(broker.services.transactions.add_partitions(who, producer, frozenset([T0]))) == [NONE]
    return producer


def state_of(broker: Harness, who: str = "x") -> Any:
    found = broker.services.transactions.describe(who)
    return found if isinstance(found, ErrorCode) else found.state.value


def test_another_leader_goes_on_where_the_last_one_was(broker: Harness) -> None:
    """The markers of the new leader carry its leader epoch as their coordinator epoch."""
    producer = begin(broker)
    move_away(broker, 1)
    assert state_of(broker) is ErrorCode.NOT_COORDINATOR
    lead(broker, 2)
    assert state_of(broker) == "Ongoing"
    assert asked(broker.services.transactions.end("x", producer, commit=True)) == [NONE]
    assert broker.markers.written == [(*producer, 2, True, [T0])]
    lead(broker, 3)
    assert state_of(broker) == "CompleteCommit"
    assert init(broker).producer == (producer.producer_id, 1)


def test_whoever_was_served_is_sent_away_with_the_partition(broker: Harness) -> None:
    """The id is refused even if it was just in use; an id that has expired is unknown."""
    producer = begin(broker)
    transactions = broker.services.transactions
    move_away(broker, 1)
    assert asked(transactions.end("x", producer, commit=True)) == [ErrorCode.NOT_COORDINATOR]
    assert transactions.verify("x", producer, [T0]) == {T0: ErrorCode.NOT_COORDINATOR}
    lead(broker, 2)
    assert transactions.verify("x", producer, [T0]) == {}
    assert asked(transactions.end("x", producer, commit=True)) == [NONE]
    at(broker, NOW_MS + TransactionConfig().id_expiration_ms)
    asked(transactions.remove_expired())
    turn(broker)
    assert asked(transactions.end("x", producer, commit=True)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    broker.services.transactions.close()
    assert asked(transactions.end("x", producer, commit=True)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_more_ids_than_are_at_hand_are_served(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_manager, "_MOST_RECENT", 3)
    producers = {who: begin(broker, who) for who in "abcdefgh"}
    for who, producer in producers.items():
        assert asked(broker.services.transactions.end(who, producer, commit=who < "d")) == [NONE]
    assert {state_of(broker, who) for who in producers} == {"CompleteCommit", "CompleteAbort"}


def test_who_has_used_up_the_epochs_gets_another_producer_id(broker: Harness) -> None:
    """The old id's open transaction is aborted first; the next leader knows the new id."""
    producer = begin(broker)
    known = broker.services.transactions._manager.known("x")
    assert not isinstance(known, ErrorCode)
    transaction = known[1]
    transaction.metadata = transaction.metadata._replace(producer_epoch=LAST_EPOCH)
    assert init(broker).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert broker.markers.written == [(producer.producer_id, LAST_EPOCH + 1, 0, False, [T0])]
    following = init(broker).producer
    assert following.producer_id != producer.producer_id and following.producer_epoch == 0
    lead(broker, 1)
    assert init(broker).producer == (following.producer_id, 1)


def test_a_new_leader_ends_what_was_being_ended(broker: Harness) -> None:
    producer = begin(broker)
    broker.markers.codes[T0] = ErrorCode.NOT_ENOUGH_REPLICAS
    assert asked(broker.services.transactions.end("x", producer, commit=True)) == [NONE]
    move_away(broker, 1)
    broker.markers.codes.clear()
    broker.clock.advance(10)  # the old leader no longer retries
    assert [marker.coordinator_epoch for marker in broker.markers.written] == [0]
    lead(broker, 2)
    assert [marker.coordinator_epoch for marker in broker.markers.written] == [0, 2]
    assert state_of(broker) == "CompleteCommit"


def test_while_it_loads_it_says_so(broker: Harness) -> None:
    begin(broker)
    move_away(broker, 1)
    topic_id = broker.services.metadata.topic_ids[TRANSACTION_STATE_TOPIC]
    broker.lead_again(TRANSACTION_STATE_TOPIC, topic_id, leader_epoch=2)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if state_of(broker) is loading:  # a small log is loaded immediately
        assert init(broker).error is loading
    turn(broker)
    assert state_of(broker) == "Ongoing"


def test_who_waits_for_the_log_is_sent_to_the_next_leader(broker: Harness) -> None:
    lead(broker, 1, isr=[0, 1], replicas=[0, 1])
    waiting = asked(broker.services.transactions.init_producer_id("x", 60_000, None))
    assert waiting == []
    concurrent = asked(broker.services.transactions.init_producer_id("x", 60_000, None))
    assert [each.error for each in concurrent] == [ErrorCode.CONCURRENT_TRANSACTIONS]
    move_away(broker, 2)
    turn(broker)
    assert [each.error for each in waiting] == [ErrorCode.NOT_COORDINATOR]


def test_an_append_that_is_not_acknowledged_has_not_happened(broker: Harness) -> None:
    """The id stays unknown and holds no memory."""
    lead(broker, 1, isr=[0, 1], replicas=[0, 1])
    waiting = asked(broker.services.transactions.init_producer_id("x", 1_000, None))
    broker.clock.advance(2)
    assert [each.error for each in waiting] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert state_of(broker) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_transaction_that_lasts_too_long_is_aborted(broker: Harness) -> None:
    producer = begin(broker, timeout_ms=1_000)
    begin(broker, "y", timeout_ms=60_000)
    transactions = broker.services.transactions
    at(broker, NOW_MS + 1_000)
    asked(transactions.abort_timed_out())
    assert broker.markers.written == []
    at(broker, NOW_MS + 1_001)
    asked(transactions.abort_timed_out())
    assert broker.markers.written == [(producer.producer_id, 1, 0, False, [T0])]
    assert (state_of(broker), state_of(broker, "y")) == ("CompleteAbort", "Ongoing")
    assert transactions.counts[:4] == (2, 1, 0, 0)
    assert asked(transactions.end("x", producer, commit=True)) == [ErrorCode.PRODUCER_FENCED]


def test_a_transaction_that_is_asked_for_as_soon_as_it_is_loaded_is_aborted_in_time(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is aborted even if the client's request could not be stored."""
    producers = {who: begin(broker, who, timeout_ms=1_000) for who in "xy"}

    async def a_step_in_each_turn(clock: Any, steps: Iterable[Any]) -> None:
        for _ in steps:
            await after(clock, 0.001)

    monkeypatch.setattr(state_manager, "in_slices", a_step_in_each_turn)
    topic_id = broker.services.metadata.topic_ids[TRANSACTION_STATE_TOPIC]
    broker.lead_again(TRANSACTION_STATE_TOPIC, topic_id, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    while state_of(broker) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        broker.clock.advance(0.001)
    added = [
        asked(broker.services.transactions.add_partitions(who, producer, frozenset([TopicPartition("t", 1)])))
        for who, producer in producers.items()
    ]
    turn(broker)
    broker.clock.advance(2)
    assert added == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]] * 2
    assert broker.services.transactions.counts.ongoing == 2


def test_ids_that_are_long_expire_likewise(broker: Harness) -> None:
    """The tombstones of long ids exceed one batch."""
    for number in range(50):
        init(broker, f"{number}{'x' * 30_000}")
    at(broker, NOW_MS + TransactionConfig().id_expiration_ms)
    asked(broker.services.transactions.remove_expired())
    turn(broker)
    assert broker.services.transactions.counts.transactional_ids == 0


def test_tombstones_do_not_wait_for_each_other(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that returns to an id waits only for that id's tombstone."""
    written: list[Deferred[ErrorCode]] = []

    def remove(log: TransactionLog, tp: TopicPartition, transactional_ids: Iterable[str]) -> Deferred[ErrorCode]:
        written.append(Deferred())
        return written[-1]

    monkeypatch.setattr(TransactionLog, "remove", remove)
    ids = [f"{number}{'x' * 30_000}" for number in range(50)]
    for each in ids:
        init(broker, each)
    at(broker, NOW_MS + TransactionConfig().id_expiration_ms)
    asked(broker.services.transactions.remove_expired())
    turn(broker)
    assert len(written) > 1 and init(broker, ids[-1]).error is ErrorCode.CONCURRENT_TRANSACTIONS
    written[-1].callback(ErrorCode.REQUEST_TIMED_OUT)
    assert init(broker, ids[-1]).error is NONE
    for waiting in written[:-1]:
        waiting.callback(NONE)
    assert broker.services.transactions.counts.transactional_ids < len(ids)


def test_the_coordinator_that_verifies_is_the_one_that_clients_are_told(broker: Harness) -> None:
    """The coordinator is the same even after partitions were added to its topic: keys stay with their partitions until
    brokers restart.
    """
    services = broker.services
    known = services.metadata.topics[TRANSACTION_STATE_TOPIC]
    before = {each: coordinator_of(services, each) for each in map(str, range(50))}
    assert set(before.values()) == {services.broker_id}
    for number in (1, 2, 3):
        known[number] = known[0]._replace(leader=99)
    assert {each: coordinator_of(services, each) for each in before} == before


def test_an_id_that_nobody_uses_is_forgotten_for_good(broker: Harness) -> None:
    init(broker)
    begin(broker, "open")
    expiration_ms = TransactionConfig().id_expiration_ms
    at(broker, NOW_MS + expiration_ms - 1)
    asked(broker.services.transactions.remove_expired())
    assert state_of(broker) == "Empty"
    at(broker, NOW_MS + expiration_ms)
    asked(broker.services.transactions.remove_expired())
    turn(broker)
    lead(broker, 1)
    assert state_of(broker) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert state_of(broker, "open") == "Ongoing"


def test_records_that_cannot_be_read_are_skipped(broker: Harness) -> None:
    begin(broker)
    for key, value in ((b"\x00\x09odd", b"?"), (encode_key("bad"), b"\x00\x00"), (None, b"?")):
        batch = RecordBatchBuilder()
        batch.append(NOW_MS, key, value)
        tp = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
        broker.services.replicas.append_own(tp, Log.append_own_batch, bytearray(batch.build()), 0, 1_000)
    lead(broker, 1)
    assert state_of(broker) == "Ongoing"
    assert state_of(broker, "bad") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_million_ids_do_not_fill_the_memory(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """New ids are refused, existing ones stay usable, and unloading a partition frees memory."""
    manager = broker.services.transactions._manager
    assert isinstance(manager, TransactionStateManager)
    monkeypatch.setattr(manager.memory, "limit_bytes", 10 * (ID_BYTES + 1000))
    results = [init(broker, str(number) + "x" * 999) for number in range(20)]
    codes = [result.error for result in results]
    assert codes == [NONE] * 10 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10
    assert init(broker, "3" + "x" * 999).error is NONE
    move_away(broker, 1)
    turn(broker)
    assert manager.memory.used_bytes == 0


def test_an_id_that_no_record_can_hold_is_refused(broker: Harness) -> None:
    assert init(broker, "ä" * 20_000).error is ErrorCode.INVALID_REQUEST
    assert init(broker, "x" * 32_767).error is NONE
    lead(broker, 1)
    assert state_of(broker, "x" * 32_767) == "Empty"


def test_a_broker_that_stops_answers(broker: Harness) -> None:
    broker.services.transactions.close()
    assert init(broker).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_ids_that_were_never_used_make_room_for_a_producer_that_tries_again(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """142,600 InitProducerId requests blocked all new ids for 7 days. An id with a raised epoch or a transaction stays.
    """
    coordinator = broker.services.transactions
    manager = coordinator._manager
    monkeypatch.setattr(manager.memory, "limit_bytes", 40 * (ID_BYTES + 10))

    def init(wanted: str, peer: str) -> Result:
        outcome: list[Result] = []
        ensureDeferred(coordinator.init_producer_id(wanted, 1000, None, peer)).addCallback(outcome.append)
        turn(broker)
        return outcome[0]

    for _ in range(2):
        assert init("again", "honest").error is NONE  # its epoch was raised
    used = init("used", "flood")
    coordinator.add_partitions("used", used.producer, frozenset([T0]))
    assert init("idle", "honest").error is NONE
    refused = 0
    for number in range(100):
        refused += init(f"flood-{number}", "flood").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert manager.memory.used_bytes <= manager.memory.limit_bytes
    assert refused
    attempts = [init("new", "honest").error for _ in range(3)]
    assert attempts[-1] is NONE
    assert {"again", "used", "idle", "new"} <= set(manager.partitions[0].transactions)
    assert manager.memory.refused_counts["flood"] == refused
    owned = manager.partitions[0]
    lead(broker, 5)  # the forgotten ids are not in the log either
    assert set(manager.partitions[0].transactions) == set(owned.transactions) or not owned.is_current


@pytest.mark.parametrize(
    ("timeout_ms", "is_allowed"), [(-1, False), (0, False), (1, True), (900_000, True), (900_001, False)]
)
def test_the_timeout_of_a_transaction_has_bounds(broker: Harness, timeout_ms: int, is_allowed: bool) -> None:
    """The bounds are transaction.max.timeout.ms and a positive value."""
    assert init(broker, timeout_ms=timeout_ms).error is (NONE if is_allowed else ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def test_a_producer_id_that_zookeeper_does_not_give_is_to_be_asked_for_again(broker: Harness) -> None:
    async def fail() -> range:
        raise ConnectionLoss("/latest_producer_id_block")

    broker.services.transactions._producer_ids = ProducerIdManager(fail)
    assert asked(broker.services.transactions.new_producer_id()) == [Result(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    assert init(broker).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

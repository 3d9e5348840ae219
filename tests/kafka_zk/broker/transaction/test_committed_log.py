"""The transaction coordinator serves the loaded records as soon as they can no longer be lost."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import capturedLogs, formatEvent

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.committed_log import until_committed
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.data.replicating_leader import Make, T, make

__all__ = ["make"]  # a fixture

STATE = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
INIT = codec.request(ApiKey.INIT_PRODUCER_ID)(
    transactional_id="x", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
)


def test_it_waits_until_the_followers_in_sync_have_what_the_log_holds_now(make: Make) -> None:
    leader = make()
    leader.append(b"a", b"b")
    done = ensureDeferred(until_committed(leader.broker.services.replicas, T, lambda: True))
    leader.append(b"later")
    leader.fetch(2, follower=1)
    assert not done.called
    leader.fetch(1, follower=2)
    assert (done.called, leader.high_watermark) == (False, 1)
    leader.fetch(2, follower=2)
    assert (done.called, leader.high_watermark) == (True, 2)


def test_it_waits_no_longer_than_anybody_wants_it(make: Make) -> None:
    """A broker that stops or loses the lead first informs the coordinator and then its waiting requests."""
    leader = make()
    leader.append(b"a")
    replicas, wanted = leader.broker.services.replicas, [True]
    done = ensureDeferred(until_committed(replicas, T, lambda: bool(wanted)))
    with capturedLogs() as logged:
        leader.pass_time(15_000)
    warned = ["t-0 is loaded, but not served: too few replicas are in sync, or they lack records before 1"]
    assert (done.called, [formatEvent(event) for event in logged]) == (False, warned)
    wanted.clear()
    replicas.purgatory.abandon_all()
    assert done.called and not leader.broker.clock.getDelayedCalls()


def test_a_coordinator_loads_until_its_followers_have_what_is_there(harness: Callable[..., Harness]) -> None:
    """The loaded record was appended two leader epochs ago, and is on no other replica yet."""
    broker = harness(**{"transaction.state.log.num.partitions": "1"})
    replicated: dict[str, Any] = {"replicas": [0, 1], "isr": [0, 1]}
    topic_id = broker.lead(TRANSACTION_STATE_TOPIC, **replicated)
    broker.clock.advance(1)
    log = broker.services.replicas.partition(STATE).leader_log()
    broker.start(ApiKey.INIT_PRODUCER_ID, 5, INIT)
    assert (log.log_end_offset, log.high_watermark) == (1, 0)
    for epoch in 1, 2:
        broker.lead_again(TRANSACTION_STATE_TOPIC, topic_id, leader_epoch=epoch, **replicated)
        broker.clock.advance(1)
        assert broker.ask(ApiKey.INIT_PRODUCER_ID, 5, INIT).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    log.update_high_watermark(1)
    broker.services.replicas.purgatory.check(STATE)
    broker.clock.advance(1)
    broker.start(ApiKey.INIT_PRODUCER_ID, 5, INIT)
    assert log.log_end_offset == 2, "the next producer epoch"


def test_somebody_else_may_lead_the_partition(make: Make) -> None:
    leader = make()
    leader.append(b"a")
    replicas = leader.broker.services.replicas
    other = T._replace(partition=7)
    assert ensureDeferred(until_committed(replicas, other, lambda: True)).called

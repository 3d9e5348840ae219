"""Authorization of followers' fetches: only brokers read records that are not committed yet."""

from collections.abc import Callable

import pytest

from kafka_zk.broker.security.authorizer import CLUSTER, Authorizer, Operation, Resource
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchResponse
from kafka_zk.protocol.request import RequestContext
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.replicating_leader import Leader
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced, values


class Without(Authorizer):
    """An authorizer that allows everything but one operation."""

    def __init__(self, denied: Operation) -> None:
        self._denied = denied
        self.asked: list[Resource] = []

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        self.asked.append(resource)
        return operation is not self._denied


class Nothing(Authorizer):
    """An authorizer that allows nothing."""

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return False


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    made.lead("t", replicas=[0, 1])
    assert produced(made, produce(batch(b"a"))).error_code == 0
    return made


def test_a_client_that_claims_to_be_a_replica_needs_cluster_action(broker: Harness) -> None:
    """Each partition, even of an unknown topic, gets TOPIC_AUTHORIZATION_FAILED, as in Kafka."""
    broker.services.authorizer = Without(Operation.CLUSTER_ACTION)
    for topic in ("t", "nowhere"):
        request = fetch(0, topic=topic)
        request.replica_id = 1
        result = fetched(broker.ask(ApiKey.FETCH, 11, request))
        assert (result.error_code, result.records or b"") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")
    assert values(fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).records) == [b"a"]


def test_a_follower_needs_nothing_but_cluster_action(broker: Harness) -> None:
    """A follower needs no permission to read the topic."""
    authorizer = Without(Operation.READ)
    broker.services.authorizer = authorizer
    request = fetch(0)
    request.replica_id = 1
    assert values(fetched(broker.ask(ApiKey.FETCH, 11, request)).records) == [b"a"]
    assert authorizer.asked == [CLUSTER]
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("was_allowed", [False, True])
def test_a_waiting_fetch_of_a_session_needs_cluster_action_too(
    harness: Callable[..., Harness], was_allowed: bool
) -> None:
    """A client that names the next leader epoch waits for it. A client without permission does not wait, even if it
    lost the permission after it began the session.
    """
    leader = Leader(harness(), replicas=[0, 1], isr=[0, 1])
    leader.append(b"secret")
    services = leader.broker.services
    allowed, denied = services.authorizer, Without(Operation.CLUSTER_ACTION)
    services.authorizer = allowed if was_allowed else denied
    session = leader.fetch_all(0, session_epoch=0).session_id
    services.authorizer = denied
    answered: list[FetchResponse] = []
    claimed = {"current_leader_epoch": 5, "session_id": session, "session_epoch": 1, "max_wait_ms": 500}
    leader.send(0, **claimed).addCallback(answered.append)
    services.authorizer = allowed
    leader.broker.lead_again("t", leader.topic_id, replicas=[0, 1], isr=[0], leader_epoch=5)
    services.authorizer = denied
    leader.pass_time(500)
    [[result]] = [topic.partitions for topic in answered[0].topics]
    assert (result.error_code, result.records or b"") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def test_a_session_that_a_consumer_began_is_no_followers(harness: Callable[..., Harness]) -> None:
    """In a consumer's session, no partition ever becomes due for a follower. Yet a follower's fetch that waits in such
    a session would return all records written from then on.
    """
    leader = Leader(harness(), replicas=[0, 1], isr=[0, 1])
    services = leader.broker.services
    allowed, denied = services.authorizer, Nothing()
    services.authorizer = denied
    session = leader.fetch_all(0, -1, session_epoch=0).session_id
    answered: list[FetchResponse] = []
    leader.send(0, topics=[], session_id=session, session_epoch=1, max_wait_ms=500).addCallback(answered.append)
    services.authorizer = allowed
    leader.append(b"secret")
    services.authorizer = denied
    leader.pass_time(500)
    [[result]] = [topic.partitions for topic in answered[0].topics]
    assert (result.error_code, result.records or b"") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")

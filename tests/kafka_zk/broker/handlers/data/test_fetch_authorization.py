"""Who may fetch as a follower: only brokers read records that are not committed yet."""

from collections.abc import Callable

import pytest

from kafka_zk.broker.security.authorizer import CLUSTER, Authorizer, Operation, Resource
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced, values


class Without(Authorizer):
    """An authorizer that allows everything but one operation."""

    def __init__(self, denied: Operation) -> None:
        self._denied = denied
        self.asked: list[Resource] = []

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        self.asked.append(resource)
        return operation is not self._denied


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    made.lead("t", replicas=[0, 1])
    assert produced(made, produce(batch(b"a"))).error_code == 0
    return made


def test_a_client_that_claims_to_be_a_replica_needs_cluster_action(broker: Harness) -> None:
    """Each partition is answered with TOPIC_AUTHORIZATION_FAILED, as in Kafka; a topic that is not there, too."""
    broker.services.authorizer = Without(Operation.CLUSTER_ACTION)
    for topic in ("t", "nowhere"):
        request = fetch(0, topic=topic)
        request.replica_id = 1
        result = fetched(broker.ask(ApiKey.FETCH, 11, request))
        assert (result.error_code, result.records or b"") == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")
    assert values(fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).records) == [b"a"]


def test_a_follower_needs_nothing_but_cluster_action(broker: Harness) -> None:
    """It need not be allowed to read the topic."""
    authorizer = Without(Operation.READ)
    broker.services.authorizer = authorizer
    request = fetch(0)
    request.replica_id = 1
    assert values(fetched(broker.ask(ApiKey.FETCH, 11, request)).records) == [b"a"]
    assert authorizer.asked == [CLUSTER]
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

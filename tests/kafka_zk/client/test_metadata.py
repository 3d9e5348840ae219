"""A snapshot of metadata is merged by topic and never goes back in leader epoch."""

from uuid import UUID

from kafka_zk.client.metadata import ClusterMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.types import TopicPartition

Response = codec.response(ApiKey.METADATA)
Topic = Response.MetadataResponseTopic
TP = TopicPartition("t", 0)


def response(leader: int, epoch: int, topic_id: int = 1, error_code: int = 0, name: str = "t") -> object:
    partition = Topic.MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[0, 1],
        isr_nodes=[leader],
        offline_replicas=[],
    )
    topic = Topic(
        error_code=error_code, name=name, topic_id=UUID(int=topic_id), partitions=[] if error_code else [partition]
    )
    brokers = [Response.MetadataResponseBroker(node_id=each, host="h", port=each, rack=None) for each in (0, 1)]
    return Response(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def test_older_leader_epoch_is_not_believed() -> None:
    """An answer of a broker that lags does not bring the old leader back; a newer epoch wins."""
    first = ClusterMetadata().updated(response(1, 5), ["t"])
    assert first.updated(response(0, 4), ["t"]).leader_id(TP) == 1
    assert first.updated(response(0, 6), ["t"]).leader_id(TP) == 0


def test_new_topic_of_the_same_name_starts_again() -> None:
    """Another topic id means another topic: its epochs count from 0."""
    first = ClusterMetadata().updated(response(1, 5), ["t"])
    assert first.updated(response(0, 0, topic_id=2), ["t"]).leader_id(TP) == 0


def test_topics_not_asked_for_are_kept_and_missing_ones_dropped() -> None:
    """What was asked for and is not in the answer is gone; everything else stays."""
    both = ClusterMetadata().updated(response(1, 0), ["t"]).updated(response(1, 0, name="u"), ["u"])
    assert set(both.topics) == {"t", "u"}
    assert set(both.updated(response(1, 0), ["t", "u"]).topics) == {"t"}


def test_a_leader_that_is_no_live_broker_is_none() -> None:
    """Leader -1, or one that is not among the brokers, cannot be asked."""
    seen = ClusterMetadata().updated(response(7, 0), ["t"])
    assert seen.leader_id(TP) is None
    assert seen.topics["t"].available == ()
    assert seen.leader_id(TopicPartition("t", 9)) is None


def test_a_topic_with_an_error_is_not_usable() -> None:
    """``topic`` gives usable topics only; the error stays readable in ``topics``."""
    seen = ClusterMetadata().updated(response(0, 0, error_code=3), ["t"])
    assert seen.topic("t") is None
    assert seen.topics["t"].error_code == 3

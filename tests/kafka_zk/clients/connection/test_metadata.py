"""A metadata snapshot is updated topic by topic, and no leader epoch ever decreases."""

from typing import Any
from uuid import UUID

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.metadata import ClusterMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint

Response = codec.response(ApiKey.METADATA)
Topic = Response.MetadataResponseTopic
TP = TopicPartition("t", 0)


def response(
    leader: int, epoch: int, topic_id: int = 1, error_code: int = 0, name: str = "t", count: int = 1
) -> object:
    partitions = [
        Topic.MetadataResponsePartition(
            error_code=0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=[0, 1],
            isr_nodes=[leader],
            offline_replicas=[],
        )
        for number in range(0 if error_code else count)
    ]
    topic = Topic(error_code=error_code, name=name, topic_id=UUID(int=topic_id), partitions=partitions)
    brokers = [Response.MetadataResponseBroker(node_id=each, host="h", port=each, rack=None) for each in (0, 1)]
    return Response(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def part(answer: Any, numbers: list[int]) -> Any:
    """The same response with these partitions only."""
    (topic,) = answer.topics
    topic.partitions = [each for each in topic.partitions if each.partition_index in numbers]
    return answer


def leaders(seen: ClusterMetadata) -> list[int]:
    return [each.leader for each in seen.topics["t"].partitions]


def test_older_leader_epoch_is_not_believed() -> None:
    """The response of a broker that lags does not restore the old leader; a newer epoch wins."""
    first = ClusterMetadata().updated(response(1, 5), ["t"])
    assert first.updated(response(0, 4), ["t"]).leader_id(TP) == 1
    assert first.updated(response(0, 6), ["t"]).leader_id(TP) == 0


def test_new_topic_of_the_same_name_starts_again() -> None:
    """Another topic id means another topic: its epochs count from 0."""
    first = ClusterMetadata().updated(response(1, 5), ["t"])
    assert first.updated(response(0, 0, topic_id=2), ["t"]).leader_id(TP) == 0


def test_a_topic_does_not_get_fewer_partitions() -> None:
    """A broker that has just registered may know only some partitions; another topic of that name may have fewer."""
    first = ClusterMetadata().updated(response(1, 5, count=3), ["t"])
    assert leaders(first.updated(response(0, 6, count=1), ["t"])) == [0, 1, 1]
    assert len(first.updated(response(0, 0, topic_id=2), ["t"]).topics["t"].partitions) == 1
    assert first.updated(response(0, 6, error_code=3), ["t"]).topics["t"].partitions == ()


def test_the_partitions_of_a_part_need_not_be_the_first_ones() -> None:
    """Known partitions fill the holes; partitions behind a hole that remains cannot be addressed by index."""
    first = ClusterMetadata().updated(response(1, 5, count=3), ["t"])
    assert leaders(first.updated(part(response(0, 6, count=6), [1, 3, 5]), ["t"])) == [1, 0, 1, 0]
    assert leaders(ClusterMetadata().updated(part(response(0, 6, count=4), [0, 2, 3]), ["t"])) == [0]


def test_without_ids_a_topic_made_anew_may_have_fewer_partitions() -> None:
    """The new topic's leader epochs begin at 0 again."""
    first = ClusterMetadata().updated(response(1, 5, topic_id=0, count=3), ["t"])
    assert leaders(first.updated(response(0, 0, topic_id=0, count=2), ["t"])) == [0, 0]


@pytest.mark.parametrize(("epoch_before", "epoch", "leader"), [(0, 0, 1), (5, 5, 1), (5, 4, 0), (-1, -1, 1)])
def test_without_ids_partitions_that_are_no_longer_told_are_gone(epoch_before: int, epoch: int, leader: int) -> None:
    """If the topic was recreated, nothing else would remove them. A leader with an older epoch is ignored."""
    first = ClusterMetadata().updated(response(1, epoch_before, topic_id=0, count=6), ["t"])
    assert leaders(first.updated(response(leader, epoch, topic_id=0, count=3), ["t"])) == [1] * 3


@pytest.mark.parametrize("epoch", [5, 6])
def test_without_ids_a_part_has_leader_epochs_as_high_as_before(epoch: int) -> None:
    """After an election a broker sends the partition first, and another broker may have sent it before."""
    first = ClusterMetadata().updated(response(1, 5, topic_id=0, count=3), ["t"])
    assert leaders(first.updated(part(response(0, epoch, topic_id=0, count=3), [1]), ["t"])) == [1, 0, 1]


def test_topics_not_asked_for_are_kept_and_missing_ones_dropped() -> None:
    """A requested topic that is missing in the response is removed; all others stay."""
    both = ClusterMetadata().updated(response(1, 0), ["t"]).updated(response(1, 0, name="u"), ["u"])
    assert set(both.topics) == {"t", "u"}
    assert set(both.updated(response(1, 0), ["t", "u"]).topics) == {"t"}


def test_a_leader_that_is_no_live_broker_is_none() -> None:
    """The leader is -1, or is not among the brokers, so it cannot receive requests."""
    seen = ClusterMetadata().updated(response(7, 0), ["t"])
    assert seen.leader_id(TP) is None
    assert seen.topics["t"].available == ()
    assert seen.leader_id(TopicPartition("t", 9)) is None


def test_a_topic_with_an_error_is_not_usable() -> None:
    """``topic`` returns usable topics only; the error can be read in ``topics``."""
    seen = ClusterMetadata().updated(response(0, 0, error_code=3), ["t"])
    assert seen.topic("t") is None
    assert seen.topics["t"].error_code == 3


def test_a_named_leader_counts_if_its_epoch_is_newer_and_its_address_known() -> None:
    """KIP-951. Brokers that the metadata know need no endpoint."""
    seen = ClusterMetadata().updated(response(0, 3, count=2), None)
    endpoint = NodeEndpoint(7, "seven", 9097, "r")
    for hint in (CurrentLeader(1, 3), CurrentLeader(1, 2), CurrentLeader(-1, 4), CurrentLeader(8, 4)):
        assert seen.with_leaders({TP: hint}, [endpoint]) == (seen, set())
    for tp in (TopicPartition("t", 2), TopicPartition("t", -1), TopicPartition("t", -9), TopicPartition("unknown", 0)):
        assert (seen.leader_id(tp), seen.leader_epoch(tp)) == (None, -1)
        assert seen.with_leaders({tp: CurrentLeader(1, 4)}, []) == (seen, set())
    for leader in (1, 7):
        after, moved = seen.with_leaders({TP: CurrentLeader(leader, 4)}, [endpoint])
        assert (moved, leaders(after), after.leader_epoch(TP)) == ({TP}, [leader, 0], 4)
        assert (after.leader_id(TP), after.topics["t"].available) == (leader, (0, 1))
    assert after.nodes[7] == (7, "seven", 9097, "r")
    assert leaders(after.updated(response(0, 3), None)) == [7, 0]  # older metadata do not restore the old leader

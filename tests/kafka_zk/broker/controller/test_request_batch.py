"""How effects become a few requests, and their messages in every supported version."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Context, LeadershipInfo, ReplicaAssignment
from kafka_zk.broker.controller.control_requests import (
    PARTITIONS_AT_ONCE,
    VERSIONS,
    Answer,
    ControlRequest,
    LeaderAndIsrRequest,
    Node,
    PartitionMetadata,
    Sender,
    StopPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafka_zk.broker.controller.effects import Send, SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from kafka_zk.broker.controller.request_batch import RequestBatch
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.broker.controller.test_machines import EPOCH, T0, T1, broker, context, info

TOPIC_ID = "A" * 21 + "Q"


@pytest.fixture
def made() -> Context:
    made = context()
    made.assign(T1, ReplicaAssignment((3, 1)))
    made.leadership = {T0: info(1, [1, 2]), T1: info(3, [3], 5, 6)}
    made.topic_ids = {"t": TOPIC_ID}
    return made


def flushed(made: Context, *effects: Send) -> list[tuple[int, ControlRequest]]:
    batch = RequestBatch(made, 9, "PLAINTEXT")
    batch.add(effects)
    requests = [request for step in batch.flush() for request in step.requests]
    assert not any(step.requests for step in batch.flush())
    return requests


@pytest.mark.parametrize(
    ("partition", "replicas", "leadership"),
    [
        (2**31, (1,), info(1, [1])),
        (1, (1, 2**31), info(1, [1])),
        (1, (1,), info(2**31, [1])),
        (1, (1,), info(1, [1, -(2**31) - 1])),
        (1, (1,), info(1, [1], 2**31)),
        (1, (1,), info(1, [1], 0, 2**31)),
    ],
)
def test_a_partition_that_cannot_be_encoded_drops_itself_only(
    made: Context, partition: int, replicas: tuple[int, ...], leadership: LeadershipInfo
) -> None:
    """However the invalid partition got into the metadata, the requests contain all other partitions and can be
    encoded.
    """
    unfit = TopicPartition("u", partition)
    made.assign(unfit, ReplicaAssignment(replicas))
    made.leadership[unfit] = leadership
    batch = RequestBatch(made, 9, "PLAINTEXT")
    batch.add([SendLeaderAndIsr((1,), tp, is_new=True) for tp in (unfit, T0, T1)])
    requests = [request for step in batch.flush() for request in step.requests]
    refused = batch.take_refused()
    assert {entry.partition for entry in refused} == {unfit}
    assert [type(request) for _, request in requests][:2] == [LeaderAndIsrRequest, UpdateMetadataRequest]
    for _, request in requests:
        assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest)
        told = request.partitions if isinstance(request, LeaderAndIsrRequest) else request.update.partitions
        assert sorted(told) == [T0, T1]
        for message in request.messages(7):
            codec.encode_body(message, request.api_key, 7)


def test_many_effects_make_one_request_of_each_kind_per_broker(made: Context) -> None:
    requests = flushed(
        made,
        SendStopReplica(2, T0),
        SendLeaderAndIsr((1, 2), T0, is_new=True),
        SendLeaderAndIsr((1,), T1),
        SendStopReplica(2, T0, delete=True),
        SendLeaderAndIsr((1,), T0),
    )
    kinds = [(broker_id, type(request)) for broker_id, request in requests]
    assert kinds == [
        (1, LeaderAndIsrRequest),
        (2, LeaderAndIsrRequest),
        (1, UpdateMetadataRequest),
        (2, UpdateMetadataRequest),
        (3, UpdateMetadataRequest),
        (2, StopReplicaRequest),
    ]
    first, stop = requests[0][1], requests[5][1]
    assert isinstance(first, LeaderAndIsrRequest) and isinstance(stop, StopReplicaRequest)
    assert first.sender == Sender(9, EPOCH, 101)
    assert {tp: partition.is_new for tp, partition in first.partitions.items()} == {T0: True, T1: False}
    assert first.live_leaders == (Node(1, "host1", 9092), Node(3, "host3", 9092))
    assert stop.partitions == {T0: StopPartition(3, delete=True)}


def test_all_brokers_hear_of_some_partitions_before_any_hears_of_the_next(made: Context) -> None:
    """Between the leader's and the follower's LeaderAndIsr with a new leader epoch, a partition is not replicated."""
    tps = [TopicPartition("t", number) for number in range(2, 2 * PARTITIONS_AT_ONCE + 3)]
    for tp in tps:
        made.assign(tp, ReplicaAssignment((1, 2)))
        made.leadership[tp] = info(1, [1, 2])
    requests = flushed(made, *(SendLeaderAndIsr((1, 2), tp) for tp in tps), SendLeaderAndIsr((3,), T1))
    told = [(to, list(each.partitions)) for to, each in requests if isinstance(each, LeaderAndIsrRequest)]
    assert [to for to, _ in told] == [1, 2, 3, 1, 2, 1, 2]
    assert all(heard in ([T1], *(tps[n : n + PARTITIONS_AT_ONCE] for n in (0, 1000, 2000))) for _, heard in told)


def test_full_requests_need_not_wait_for_the_rest(made: Context) -> None:
    """The rule is for LeaderAndIsr only. Clients see all partitions of a topic together, once all have leaders."""
    tps = [TopicPartition("t", number) for number in range(2, PARTITIONS_AT_ONCE + 4)]
    for tp in tps:
        made.assign(tp, ReplicaAssignment((1, 2)))
        made.leadership[tp] = info(1, [1, 2])
    batch = RequestBatch(made, 9, "PLAINTEXT")
    batch.add([SendLeaderAndIsr((1, 2), tp, is_new=True) for tp in tps[:-2]])
    assert [to for step in batch.full() for to, _ in step.requests] == [1, 2]
    batch.add([SendLeaderAndIsr((1, 2), tp, is_new=True) for tp in tps[-2:]])
    assert not list(batch.full())
    [*told, (_, update), _, _] = [request for step in batch.flush() for request in step.requests]
    led = [(to, {*each.partitions}) for to, each in told if isinstance(each, LeaderAndIsrRequest)]
    assert led == [(1, {*tps[-2:]}), (2, {*tps[-2:]})]
    assert isinstance(update, UpdateMetadataRequest) and update.update.partitions.keys() == {*tps}


def test_brokers_that_are_gone_get_nothing(made: Context) -> None:
    assert flushed(made, SendStopReplica(8, T0), SendUpdateMetadata((7,))) == []


def test_update_metadata_tells_of_offline_replicas_and_deleted_topics(made: Context) -> None:
    del made.brokers[2]
    made.topics_to_delete = {"u"}
    gone = TopicPartition("u", 0)
    made.assign(gone, ReplicaAssignment((1,)))
    made.leadership[gone] = info(1, [1])
    (_, request), _ = flushed(made, SendUpdateMetadata(None, [T0, gone, TopicPartition("new", 0)]))
    assert isinstance(request, UpdateMetadataRequest)
    assert request.update.partitions == {
        T0: PartitionMetadata(info(1, [1, 2]), (1, 2, 3), (2,)),
        gone: PartitionMetadata(LeadershipInfo(-2, [1], 0, 6, 0, 0), (1,), ()),
    }
    assert request.update.topic_ids == {"t": TOPIC_ID}
    assert [broker.broker_id for broker in request.update.brokers] == [1, 3]


def on_the_wire(request: ControlRequest, version: int) -> list[Any]:
    """The messages as a broker decodes them."""
    return [
        codec.decode_request(request.api_key, version, memoryview(codec.encode_body(m, request.api_key, version)))
        for m in request.messages(version)
    ]


@pytest.mark.parametrize("version", range(VERSIONS[ApiKey.LEADER_AND_ISR][0], VERSIONS[ApiKey.LEADER_AND_ISR][1] + 1))
def test_leader_and_isr_on_the_wire(made: Context, version: int) -> None:
    (_, request), *_ = flushed(made, SendLeaderAndIsr((1,), T0, is_new=True))
    (message,) = on_the_wire(request, version)
    [topic] = message.topic_states if version >= 2 else [message]
    [state] = topic.partition_states if version >= 2 else message.ungrouped_partition_states
    assert (message.controller_id, message.controller_epoch) == (9, EPOCH)
    assert version < 2 or message.broker_epoch == 101
    name = topic.topic_name if version >= 2 else state.topic_name
    assert (name, state.partition_index, version < 1 or state.is_new) == ("t", 0, True)
    assert (state.leader, state.leader_epoch, state.isr, state.partition_epoch) == (1, 3, [1, 2], 9)
    assert (state.replicas, state.controller_epoch) == ([1, 2, 3], 6)
    assert version < 5 or topic.topic_id == uuids.from_text(TOPIC_ID)


def test_update_metadata_on_the_wire(made: Context) -> None:
    (_, request), *_ = flushed(made, SendUpdateMetadata(None, [T1, T0]))
    for version in range(VERSIONS[ApiKey.UPDATE_METADATA][0], VERSIONS[ApiKey.UPDATE_METADATA][1] + 1):
        (message,) = on_the_wire(request, version)
        if version < 5:
            states = message.ungrouped_partition_states
            assert {state.topic_name for state in states} == {"t"}
        else:
            (topic,) = message.topic_states
            states = topic.partition_states
        assert [state.partition_index for state in states] == [1, 0]
        assert [(b.id, b.endpoints[0].host, b.endpoints[0].listener) for b in message.live_brokers] == [
            (n, f"host{n}", "PLAINTEXT") for n in (1, 2, 3)
        ]


def test_stop_replica_of_before_2_6_is_split_by_its_flag(made: Context) -> None:
    request = dict(flushed(made, SendStopReplica(1, T0), SendStopReplica(1, T1, delete=True)))[1]
    (new,) = on_the_wire(request, 4)
    (topic,) = new.topic_states
    assert [(s.partition_index, s.leader_epoch, s.delete_partition) for s in topic.partition_states] == [
        (0, 3, False),
        (1, 5, True),
    ]
    old = [(m.delete_partitions, m.topics[0].partition_indexes) for m in on_the_wire(request, 2)]
    assert old == [(True, [1]), (False, [0])]
    oldest = [(m.delete_partitions, m.ungrouped_partitions) for m in on_the_wire(request, 0)]
    assert [(deletes, p.topic_name, p.partition_index) for deletes, [p] in oldest] == [(True, "t", 1), (False, "t", 0)]


def test_stop_replica_while_deleting_overrides_every_epoch(made: Context) -> None:
    made.topics_to_delete = {"t"}
    request = dict(flushed(made, SendStopReplica(1, T0, delete=True)))[1]
    assert isinstance(request, StopReplicaRequest) and request.partitions[T0].leader_epoch == -2


def test_answers_by_topic_id_and_by_name(made: Context) -> None:
    (_, request), *_ = flushed(made, SendLeaderAndIsr((1,), T0))
    response = codec.response(ApiKey.LEADER_AND_ISR)
    error = response.LeaderAndIsrPartitionError(topic_name="t", partition_index=0, error_code=56)
    by_id = response.LeaderAndIsrTopicError(topic_id=uuids.from_text(TOPIC_ID), partition_errors=[error])
    assert request.answer(7, response(error_code=0, topics=[by_id])) == Answer(0, {T0: 56})
    assert request.answer(4, response(error_code=0, partition_errors=[error], topics=[])) == Answer(0, {T0: 56})


def test_a_newer_update_takes_up_the_older_one(made: Context) -> None:
    (_, older), *_ = flushed(made, SendUpdateMetadata(None, [T0]))
    made.brokers[4] = broker(4)
    made.leadership[T0] = info(2, [2], 4)
    (_, newer), *_ = flushed(made, SendUpdateMetadata(None, [T1, T0]))
    assert isinstance(older, UpdateMetadataRequest) and isinstance(newer, UpdateMetadataRequest)
    merged = older.merged(newer)
    assert merged is not None and merged.update.partitions == newer.update.partitions
    assert len(merged.update.brokers) == 4
    made.topic_ids["t"] = "B" * 21 + "Q"
    (_, other_topic), *_ = flushed(made, SendUpdateMetadata(None, [T0]))
    assert isinstance(other_topic, UpdateMetadataRequest)
    assert older.merged(other_topic) is None

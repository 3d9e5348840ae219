"""AlterPartition, AllocateProducerIds, and ISRs that old brokers change themselves."""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import alter_partition, events
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.effects import WriteState
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry import isr, producer_ids
from kafka_zk.registry.znodes import isr as isr_znodes
from kafka_zk.registry.znodes import topics as znodes
from tests.kafka_zk.broker.controller.test_machines import EPOCH, T0, context, info
from tests.kafka_zk.broker.controller.world import Cluster

TP = TopicPartition("t", 0)

# -- the core --

STANDING = info(1, [1, 2], leader_epoch=3, version=9)
WANTED = Proposal(3, (1, 2, 3), 0, 9)


def test_a_proposal_that_fits_is_to_be_written_under_the_same_leader_epoch() -> None:
    made = context()
    made.leadership[T0] = STANDING
    write = alter_partition.validate(made, 1, T0, WANTED)
    assert write == WriteState(T0, replace(STANDING, isr=[1, 2, 3], controller_epoch=EPOCH), ())


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (WANTED._replace(partition_epoch=10), ErrorCode.NOT_CONTROLLER),
        (WANTED._replace(leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (WANTED._replace(leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (WANTED._replace(leader_epoch=2, partition_epoch=8), ErrorCode.FENCED_LEADER_EPOCH),
        (WANTED._replace(partition_epoch=8), ErrorCode.INVALID_UPDATE_VERSION),
        (WANTED._replace(leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(isr=(1,), leader_recovery_state=1), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(leader_recovery_state=5), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(isr=(2, 3)), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(isr=()), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(isr=(1, 2, 2)), ErrorCode.INVALID_REQUEST),
        (WANTED._replace(isr=(1, 2, 4)), ErrorCode.INELIGIBLE_REPLICA),
        (WANTED._replace(isr=(1, 5)), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals_tell_the_leader_what_to_do(wanted: Proposal, code: ErrorCode) -> None:
    """Broker 4 is a replica that is not alive; broker 5 is alive but not a replica."""
    made = context((1, 2, 3, 4), live=(1, 2, 3, 5))
    made.leadership[T0] = STANDING
    assert alter_partition.validate(made, 1, T0, wanted) is code


def test_only_the_leader_may_propose() -> None:
    made = context()
    made.leadership[T0] = STANDING
    assert alter_partition.validate(made, 2, T0, WANTED) is ErrorCode.INVALID_REQUEST
    assert alter_partition.validate(made, 1, TopicPartition("t", 1), WANTED) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_broker_that_shuts_down_does_not_come_back_into_an_isr() -> None:
    made = context()
    made.leadership[T0] = STANDING
    made.shutting_down = {3}
    assert alter_partition.validate(made, 1, T0, WANTED) is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("partition_epoch", [3, 9])
def test_what_stands_already_is_granted_again(partition_epoch: int) -> None:
    """The leader did not receive the response, so it knows an older partition epoch."""
    made = context(live=(1,))
    made.leadership[T0] = STANDING
    assert alter_partition.validate(made, 1, T0, Proposal(3, (1, 2), 0, partition_epoch)) == STANDING


def test_a_leader_that_has_recovered_says_so() -> None:
    made = context()
    made.leadership[T0] = replace(STANDING, isr=[1], leader_recovery_state=1)
    assert isinstance(alter_partition.validate(made, 1, T0, Proposal(3, (1,), 0, 9)), WriteState)
    assert alter_partition.validate(made, 1, T0, Proposal(3, (1, 2), 1, 9)) is ErrorCode.INVALID_REQUEST


# -- over the wire, against ZooKeeper --

NAMES = {0: "t", 1: "t", 2: "", 3: ""}


def propose(cluster: Cluster, isr: list[int], version: int = 3, broker_id: int = 0, **other: Any) -> Any:
    """Returns the response to broker ``broker_id`` for t-0. ``other``: fields of the partition or of the request."""
    state = cluster.state("t", other.get("partition_index", 0))
    assert state is not None
    cls = codec.request(ApiKey.ALTER_PARTITION)
    fields = {
        "partition_index": 0,
        "leader_epoch": state.leader_epoch,
        "new_isr": isr,
        "new_isr_with_epochs": [cls.TopicData.PartitionData.BrokerState(broker_id=m, broker_epoch=-1) for m in isr],
        "leader_recovery_state": 0,
        "partition_epoch": state.zk_version,
    }
    topic_id = other.pop("topic_id", uuids.from_text(cluster.assignment("t").topic_id or ""))
    broker_epoch = other.pop("broker_epoch", cluster.brokers[broker_id].epoch)
    to = other.pop("to", None)
    partitions = [cls.TopicData.PartitionData(**{**fields, **other})]
    topics = [cls.TopicData(topic_name=NAMES[version], topic_id=topic_id, partitions=partitions)]
    request = cls(broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)
    return cluster.ask(ApiKey.ALTER_PARTITION, version, request, to)


@pytest.mark.parametrize("version", range(4))
def test_an_isr_shrinks_and_grows(version: int) -> None:
    """The leader epoch stays the same, no LeaderAndIsr follows, and every broker receives UpdateMetadata."""
    cluster = Cluster()
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    for broker in cluster.brokers:
        broker.requests.clear()
    for members, partition_epoch in (([0, 2], 1), ([0, 2, 1], 2)):
        answer = propose(cluster, members, version)
        (topic,) = answer.topics
        (given,) = topic.partitions
        assert answer.error_code == given.error_code == 0
        shown = (given.leader_id, given.leader_epoch, given.isr, given.partition_epoch)
        assert shown == (0, 0, members, partition_epoch)
        if version >= 2:
            assert uuids.to_text(topic.topic_id) == cluster.assignment("t").topic_id
        else:
            assert topic.topic_name == "t"
        cluster.settle()
        state = cluster.state("t")
        assert state is not None and (state.isr, state.leader_epoch, state.zk_version) == (members, 0, partition_epoch)
        assert cluster.controller.context.leadership[TP] == state
        assert [broker.metadata.topics["t"][0].isr for broker in cluster.brokers] == [members] * 3
    assert {key for broker in cluster.brokers for key, _ in broker.requests} == {ApiKey.UPDATE_METADATA}
    told = [event.leadership[0][1].isr for event in cluster.brokers[0].named(events.IsrsChanged)]
    assert told == [[0, 2], [0, 2, 1]]


def test_whole_requests_are_refused() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [0, 1]})
    cluster.settle()
    assert propose(cluster, [0], to=1).error_code == ErrorCode.NOT_CONTROLLER
    assert propose(cluster, [0], broker_epoch=cluster.brokers[0].epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert propose(cluster, [0], broker_epoch=-1).error_code == ErrorCode.STALE_BROKER_EPOCH
    unknown = codec.request(ApiKey.ALTER_PARTITION)(broker_id=7, broker_epoch=1, topics=[])
    assert cluster.ask(ApiKey.ALTER_PARTITION, 3, unknown).error_code == ErrorCode.STALE_BROKER_EPOCH
    state = cluster.state("t")
    assert state is not None and state.isr == [0, 1]


def test_one_bad_partition_never_spoils_a_request() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [0, 1], 1: [0, 2], 2: [1, 0]})
    cluster.settle()
    cls = codec.request(ApiKey.ALTER_PARTITION)

    def partition(index: int, isr: list[int], leader_epoch: int = 0) -> Any:
        members = [cls.TopicData.PartitionData.BrokerState(broker_id=m, broker_epoch=-1) for m in isr]
        return cls.TopicData.PartitionData(
            partition_index=index, leader_epoch=leader_epoch, new_isr=[], new_isr_with_epochs=members,
            leader_recovery_state=0, partition_epoch=0,
        )  # fmt: skip

    known = uuids.from_text(cluster.assignment("t").topic_id or "")
    wanted = [partition(0, [0]), partition(1, [0, 7]), partition(2, [1]), partition(9, [0]), partition(1, [0], 5)]
    answer = cluster.ask(
        ApiKey.ALTER_PARTITION,
        3,
        cls(
            broker_id=0,
            broker_epoch=cluster.brokers[0].epoch,
            topics=[
                cls.TopicData(topic_name="", topic_id=uuid.UUID(int=5), partitions=[partition(3, [0])]),
                cls.TopicData(topic_name="", topic_id=known, partitions=wanted),
            ],
        ),
    )
    assert answer.error_code == 0
    codes = {(t.topic_id == known, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}
    assert codes == {
        (False, 3): ErrorCode.UNKNOWN_TOPIC_ID,
        (True, 0): ErrorCode.NONE,
        (True, 1): ErrorCode.NOT_CONTROLLER,  # of two entries, the last one wins, as in Kafka
        (True, 2): ErrorCode.INVALID_REQUEST,
        (True, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    cluster.settle()
    first = cluster.state("t", 0)
    assert first is not None and first.isr == [0]


@pytest.mark.parametrize(("version", "code"), [(1, 55), (2, 107), (3, 107)])
def test_old_leaders_know_no_ineligible_replica(version: int, code: int) -> None:
    cluster = Cluster()
    cluster.create("t", {0: [0, 1]})
    cluster.settle()
    answer = propose(cluster, [0, 2], version)
    assert [p.error_code for t in answer.topics for p in t.partitions] == [code]


def test_a_state_that_another_one_wrote_is_read_again() -> None:
    """The error is INVALID_UPDATE_VERSION; the next proposal is based on the stored state."""
    cluster = Cluster()
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    before = cluster.state("t")
    assert before is not None
    written = replace(before, isr=[0, 1])
    cluster.set(znodes.state_path("t", 0), znodes.encode_state(written))
    answer = propose(cluster, [0], partition_epoch=before.zk_version)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert propose(cluster, [0]).topics[0].partitions[0].error_code == 0
    after = cluster.state("t")
    assert after is not None and after.isr == [0]


def test_isrs_that_old_leaders_changed_are_read_and_told() -> None:
    """Below inter-broker protocol 2.7 the leader writes the state itself and leaves a notification."""
    cluster = Cluster()
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    before = cluster.state("t")
    assert before is not None
    for broker in cluster.brokers:
        broker.requests.clear()
    cluster.set(znodes.state_path("t", 0), znodes.encode_state(replace(before, isr=[0, 2])))
    cluster.scheduler.run(isr.notify_isr_change(cluster.tool, [TP, TopicPartition("gone", 3)]))
    cluster.scheduler.run(cluster.tool.create(f"{isr_znodes.ISR_CHANGES}/isr_change_9999999999", b"garbage"))
    cluster.settle()
    assert [broker.metadata.topics["t"][0].isr for broker in cluster.brokers] == [[0, 2]] * 3
    assert {key for broker in cluster.brokers for key, _ in broker.requests} == {ApiKey.UPDATE_METADATA}
    assert cluster.paths(isr_znodes.ISR_CHANGES) == [isr_znodes.ISR_CHANGES]
    assert propose(cluster, [0]).topics[0].partitions[0].error_code == 0


# -- producer ids --


def test_producer_ids_come_in_blocks_that_no_other_broker_has() -> None:
    cluster = Cluster()
    cls = codec.request(ApiKey.ALLOCATE_PRODUCER_IDS)

    def ask(broker_id: int, epoch: int, to: int | None = None) -> Any:
        return cluster.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, cls(broker_id=broker_id, broker_epoch=epoch), to)

    epoch = cluster.brokers[2].epoch
    first = ask(2, epoch)
    assert (first.error_code, first.producer_id_start, first.producer_id_len) == (0, 0, 1000)
    itself = cluster.scheduler.run(producer_ids.allocate_block(cluster.brokers[1].client, 1))
    assert itself.start == 1000
    assert ask(2, epoch).producer_id_start == 2000
    assert ask(2, epoch + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert ask(7, epoch).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert ask(2, epoch, to=1).error_code == ErrorCode.NOT_CONTROLLER


# -- responses of brokers --


def test_that_a_broker_knew_a_leader_already_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's brokers respond with STALE_CONTROLLER_EPOCH to a LeaderAndIsr whose leader epoch they already have."""
    cluster = Cluster()
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.brokers[2].refusals[TP] = ErrorCode.STALE_CONTROLLER_EPOCH
    cluster.scheduler.run(cluster.brokers[0].controller.shutdown())
    cluster.settle()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

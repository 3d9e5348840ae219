"""Each record changes the image as it changes a controller's metadata."""

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.migration.facts import MigrationState
from kafka_zk.migration.metadata.image import MetadataImage, PartitionState
from kafka_zk.migration.metadata.replay import Replay, UnreadableMetadata
from kafka_zk.protocol.metadata_record import RecordType
from tests.kafka_zk.migration.metadata.made_records import (
    ABORT,
    BEGIN,
    END,
    TOPIC_ID,
    batch,
    change,
    config,
    partition,
    record,
    topic,
)

STATE = PartitionState((1, 2), (), (), (1, 2), 1, 4, 0)
ORDERS = "orders", 0
SNAPSHOT_FOOTER = 4


def image(*values: bytes) -> MetadataImage:
    replay = Replay()
    for offset, value in enumerate(values):
        replay.batch(batch(offset, value))
    return replay.result("here").image


def test_a_topic_and_its_partition() -> None:
    found = image(topic(), partition())
    assert list(found.topics) == ["orders"] and found.partitions == {ORDERS: STATE}


def test_a_change_leaves_what_it_does_not_name() -> None:
    assert image(topic(), partition(), change(isr=[2])).partitions[ORDERS] == STATE._replace(isr=(2,))


def test_a_leader_raises_the_leader_epoch_even_if_it_is_the_same() -> None:
    changed = image(topic(), partition(), change(leader=1), change(leader=-1, leader_recovery_state=1))
    assert changed.partitions[ORDERS] == STATE._replace(leader=-1, leader_epoch=6, leader_recovery_state=1)


def test_a_reassignment() -> None:
    changes = change(replicas=[1, 3], adding_replicas=[3], removing_replicas=[2]), change(adding_replicas=[])
    assert image(topic(), partition(), *changes).partitions[ORDERS] == STATE._replace(replicas=(1, 3), removing=(2,))


def test_a_removed_topic_takes_its_partitions_and_configuration_with_it() -> None:
    remove = record(RecordType.REMOVE_TOPIC, topic_id=TOPIC_ID)
    assert image(topic(), partition(), partition(partition_id=1), config("1"), remove) == MetadataImage()


def test_a_partition_with_the_highest_number_costs_no_more_than_another() -> None:
    remove = record(RecordType.REMOVE_TOPIC, topic_id=TOPIC_ID)
    assert image(topic(), partition(partition_id=2**31 - 1), partition(partition_id=-1), remove) == MetadataImage()


def test_the_last_removed_key_removes_the_configuration() -> None:
    assert image(config("1"), config("2", "segment.bytes"), config(None)).configs == {
        ("topic", "orders"): {"segment.bytes": "2"}
    }
    assert image(config("1"), config(None), config(None, "other")) == MetadataImage()


def test_configurations_that_zookeeper_does_not_have_are_left_out() -> None:
    assert image(config("1", resource_type=16)) == MetadataImage()


def test_what_is_removed_again() -> None:
    acl_id = UUID(int=5)
    acl = record(
        RecordType.ACCESS_CONTROL_ENTRY, id=acl_id, resource_type=2, resource_name="t", pattern_type=3,
        principal="User:a", host="*", operation=3, permission_type=3,
    )  # fmt: skip
    user = record(
        RecordType.USER_SCRAM_CREDENTIAL, name="a", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v",
        iterations=4096,
    )  # fmt: skip
    token = record(
        RecordType.DELEGATION_TOKEN, owner="User:a", requester="User:a", renewers=["User:c", "User:b"], token_id="t",
        issue_timestamp=1, max_timestamp=2, expiration_timestamp=3,
    )  # fmt: skip
    found = image(acl, user, token)
    assert len(found.acls) == 1 and list(found.users) == [("a", "SCRAM-SHA-512")]
    assert found.tokens["t"].renewers == ("User:b", "User:c")
    removals = (
        record(RecordType.REMOVE_ACCESS_CONTROL_ENTRY, id=acl_id),
        record(RecordType.REMOVE_USER_SCRAM_CREDENTIAL, name="a", mechanism=2),
        record(RecordType.REMOVE_DELEGATION_TOKEN, token_id="t"),
    )
    assert image(acl, user, token, *removals) == MetadataImage()


def test_a_quota_is_removed_by_a_flag() -> None:
    entity: dict[str, Any] = {"key": "producer_byte_rate", "entity": []}
    assert image(record(RecordType.CLIENT_QUOTA, **entity, value=5.0, remove=False)).quotas == {
        (): {"producer_byte_rate": 5.0}
    }
    removed = record(RecordType.CLIENT_QUOTA, **entity, value=0.0, remove=True)
    assert image(record(RecordType.CLIENT_QUOTA, **entity, value=5.0, remove=False), removed) == MetadataImage()


def test_a_transaction_counts_when_it_ends() -> None:
    assert image(BEGIN, topic()) == MetadataImage()
    assert image(BEGIN, topic(), ABORT) == MetadataImage()
    assert list(image(BEGIN, topic(), END).topics) == ["orders"]
    assert list(image(BEGIN, topic("lost"), ABORT, topic()).topics) == ["orders"]


def test_the_last_state_of_the_migration_counts() -> None:
    replay = Replay()
    assert replay.result("here").state is MigrationState.NONE
    states = [record(RecordType.ZK_MIGRATION_STATE, zk_migration_state=each) for each in (2, 1)]
    replay.batch(batch(0, *states))
    found = replay.result("here")
    assert (found.state, found.end_offset) == (MigrationState.MIGRATION, 2)


def test_the_log_goes_on_where_the_snapshot_ends() -> None:
    replay = Replay()
    replay.snapshot_batch(batch(0, topic()))
    replay.snapshot_batch(batch(1, control_type=SNAPSHOT_FOOTER))
    replay.snapshot_ended(100, 3)
    replay.batch(batch(98, config("0"), config("0")))
    replay.batch(batch(100, config("1")))
    found = replay.result("here")
    assert found.end_offset == 101 and found.image.configs == {("topic", "orders"): {"retention.ms": "1"}}


def test_a_gap_in_the_log() -> None:
    replay = Replay()
    replay.batch(batch(0, topic()))
    with pytest.raises(UnreadableMetadata, match="from offset 1 to 4 are missing"):
        replay.batch(batch(5, topic()))


def test_a_record_that_does_not_fit() -> None:
    with pytest.raises(UnreadableMetadata, match="a partition record does not fit"):
        image(partition())


def test_a_record_of_a_newer_release() -> None:
    with pytest.raises(UnreadableMetadata, match=r"version 9, which 3\.9 does not"):
        image(bytes((1, RecordType.TOPIC, 9, 0)))


def test_a_topic_without_an_id() -> None:
    with pytest.raises(UnreadableMetadata, match="a topic without an id"):
        image(record(RecordType.TOPIC, name="t", topic_id=None))


@given(st.lists(st.tuples(st.sampled_from(RecordType), st.binary(max_size=60)), max_size=3))
def test_garbage_is_one_sentence(records: list[tuple[RecordType, bytes]]) -> None:
    values = [bytes((1, kind, 0)) + body for kind, body in records]
    with contextlib.suppress(UnreadableMetadata):
        image(topic(), partition(), *values)


@pytest.mark.parametrize("kind", RecordType)
def test_a_record_of_zeros_is_no_exception(kind: RecordType) -> None:
    with contextlib.suppress(UnreadableMetadata):
        image(bytes((1, kind, 0)) + bytes(80))

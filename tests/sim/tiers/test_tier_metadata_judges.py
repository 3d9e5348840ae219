"""The judges of remote log metadata find planted violations, and accept what is allowed."""

from dataclasses import replace
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.sim.world.history import Lifted
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from tests.sim.tiers import tier_metadata_judges as judges
from tests.sim.tiers.tier_metadata_judges import MetadataRecord, MetadataWrite
from tests.storage.tiered.segments import segment, update

COPY = replace(segment(1, 42, 51), state=RemoteLogSegmentState.COPY_SEGMENT_STARTED)
TP = TopicPartition(COPY.segment_id.tp.topic, COPY.segment_id.tp.partition)
FINISHED = update(COPY, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
DELETING = update(COPY, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)


def write(time_ms: float, record: MetadataRecord, broker_id: int = 1) -> MetadataWrite:
    return MetadataWrite(time_ms, broker_id, record, time_ms + 1)


def role(time_ms: float, role: Role, broker_id: int = 1) -> Lifted:
    actor = f"broker-{broker_id}"
    return Lifted(time_ms, actor, RoleChanged(int(time_ms), actor, "LeaderAndIsr", 0, TP, role, 0, None))


def again(record: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata:
    return replace(record, segment_id=record.segment_id._replace(id=UUID(int=77)))


def test_attempts_have_their_own_ids() -> None:
    assert not judges.attempts([write(1, COPY), write(2, FINISHED), write(3, again(COPY))])
    assert len(judges.attempts([write(1, COPY), write(2, COPY)])) == 1


def test_what_is_not_committed_is_not_copied() -> None:
    assert not judges.committed(write(1, COPY), 52)
    assert judges.committed(write(1, COPY), 51)
    assert not judges.committed(write(1, FINISHED), 0)


def test_only_leaders_begin_something() -> None:
    facts = [role(1, Role.LEADER), role(5, Role.FOLLOWER)]
    assert not judges.leaders([write(2, COPY), write(6, FINISHED)], facts, "recreated")
    assert judges.leaders([write(0, COPY)], facts, "recreated")
    assert judges.leaders([write(2, COPY, broker_id=2)], facts, "recreated")
    for record in (COPY, DELETING):
        assert judges.leaders([write(6, record)], facts, "recreated")
        assert not judges.leaders([write(6, record)], facts, TP.topic)


def test_leaders_know_what_was_copied_before_their_term() -> None:
    first = [write(2, COPY), write(3, FINISHED)]
    facts = [role(1, Role.LEADER), role(5, Role.LEADER, broker_id=2)]
    assert judges.copies([*first, write(6, again(COPY), broker_id=2)], facts)
    shorter = replace(again(COPY), end_offset=45)
    assert judges.copies([*first, write(6, shorter, broker_id=2)], facts)
    longer = replace(again(COPY), end_offset=60)
    assert not judges.copies([*first, write(6, longer, broker_id=2)], facts)
    assert not judges.copies([*first, write(4, DELETING), write(6, again(COPY), broker_id=2)], facts)
    early = [role(1, Role.LEADER), role(3, Role.LEADER, broker_id=2)]
    assert not judges.copies([*first, write(6, again(COPY), broker_id=2)], early)

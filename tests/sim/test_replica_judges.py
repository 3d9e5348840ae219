"""The judges of replication find planted violations, and accept sound samples."""

from kafka_zk.base.types import TopicPartition
from tests.sim import replica_judges
from tests.sim.replica_judges import EndSeen, KeyedLog, LoggedBatch, ReplicaLog, ReplicaSample, StateSample, StateWrite

TP = TopicPartition("t", 0)
STATE = StateSample(1.0, TP, 1, 4, 2, (1, 2), 7)


def test_a_watermark_above_what_a_member_of_the_isr_has() -> None:
    leader = ReplicaSample(1, True, 4, 10, 12)
    assert replica_judges.watermark(1.0, STATE, {1: leader, 2: ReplicaSample(2, False, 4, 9, 9)})
    assert not replica_judges.watermark(1.0, STATE, {1: leader, 2: ReplicaSample(2, False, 4, 9, 10)})
    assert not replica_judges.watermark(1.0, STATE, {1: leader, 3: ReplicaSample(3, False, 4, 0, 0)})


def test_epochs_that_go_back_and_two_leaders_in_one() -> None:
    later = STATE._replace(leader=2, leader_epoch=5, zk_version=8)
    assert not replica_judges.states([STATE, later])
    assert replica_judges.states([later, STATE])
    assert replica_judges.states([STATE, later._replace(leader_epoch=4)])
    assert replica_judges.states([STATE, later._replace(leader=3)])
    assert replica_judges.states([STATE, later._replace(isr=())])


def test_a_controller_that_writes_beside_a_newer_one() -> None:
    assert not replica_judges.writers([], [StateWrite(1, 2, STATE)])
    assert replica_judges.writers([], [StateWrite(1, 3, STATE)])


def test_an_end_that_goes_back() -> None:
    assert replica_judges.ends([EndSeen(1.0, TP, 5), EndSeen(2.0, TP, 4)])
    assert not replica_judges.ends([EndSeen(1.0, TP, 5), EndSeen(2.0, TP, 5)])


def test_logs_that_differ_below_the_smaller_high_watermark() -> None:
    one = ReplicaLog(1, 2, 0, [LoggedBatch(0, 0, 0, "a"), LoggedBatch(1, 1, 0, "b")])
    other = ReplicaLog(2, 1, 0, [LoggedBatch(0, 0, 0, "a"), LoggedBatch(1, 1, 1, "c")])
    assert not replica_judges.agreement(1.0, TP, [one, other])
    assert replica_judges.agreement(1.0, TP, [one, other._replace(high_watermark=2)])
    assert replica_judges.agreement(1.0, TP, [one, other._replace(high_watermark=2, batches=other.batches[:1])])


def test_an_acknowledged_record_that_too_few_have() -> None:
    assert replica_judges.acknowledged(1.0, TP, 9, 2, {1: 10, 2: 9, 3: 0})
    assert not replica_judges.acknowledged(1.0, TP, 9, 2, {1: 10, 2: 10, 3: 0})
    assert not replica_judges.acknowledged(1.0, TP, 9, 2, {1: 10, 2: None, 3: 0})
    assert not replica_judges.acknowledged(1.0, TP, 9, 1, {1: 10, 2: 9, 3: 0})


def test_a_committed_record_that_is_not_durable() -> None:
    log = ReplicaLog(1, 2, 0, [LoggedBatch(0, 1, 0, "a")], 2)
    assert not replica_judges.durable(1.0, TP, [log])
    assert replica_judges.durable(1.0, TP, [log._replace(durable_end=1)])


def test_the_last_record_of_a_key_that_a_compacted_replica_lacks() -> None:
    whole = KeyedLog(1, 4, [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"c")])
    compacted = KeyedLog(2, 4, [(1, b"b"), (2, b"a"), (3, b"c")])
    assert not replica_judges.last_records(1.0, TP, [whole, compacted])
    with_a_hole = KeyedLog(2, 4, [(0, b"a"), (3, b"c")])
    found = replica_judges.last_records(1.0, TP, [whole, with_a_hole])
    assert {text.partition(" of ")[0] for text in found} == {"1.000: 2 lacks b'b'@1", "1.000: 2 lacks b'a'@2"}
    behind = KeyedLog(2, 1, [(0, b"a")])
    assert not replica_judges.last_records(1.0, TP, [whole, behind])

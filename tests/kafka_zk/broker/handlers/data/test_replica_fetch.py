"""Followers' fetches: what the leader returns, and how they advance the watermark."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica import delayed_delete_records
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchTopic
from tests.kafka_zk.broker.conftest import batch
from tests.kafka_zk.broker.handlers.data.replicating_leader import Leader, Make, T, make, size
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced

__all__ = ["make"]  # a fixture

OLD_VERSION = 8  # neither epochs nor tagged fields


def test_a_follower_reads_to_the_log_end_and_its_next_fetch_commits(make: Make) -> None:
    """Consumers read what all in-sync replicas have; the follower that is ahead learns of the watermark with its next
    fetch.
    """
    leader = make()
    leader.append(b"a", b"b")
    assert (leader.fetch(0, 1).high_watermark, size(leader.fetch(0, 2)) > 0) == (0, True)
    assert fetched(leader.broker.ask(ApiKey.FETCH, 11, fetch(0))).records in (None, b"")
    leader.fetch(2, 1)
    assert leader.high_watermark == 0
    assert leader.fetch(1, 2).high_watermark == 1
    assert leader.fetch(2, 2).high_watermark == leader.high_watermark == 2
    assert fetched(leader.broker.ask(ApiKey.FETCH, 11, fetch(0))).high_watermark == 2


def test_a_producer_with_all_acks_waits_for_the_followers(make: Make) -> None:
    leader = make()
    answers: list[Any] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(answers.append)
    leader.fetch(1, 1)
    assert not answers
    leader.fetch(1, 2)
    assert [answer.responses[0].partition_responses[0].error_code for answer in answers] == [0]


def test_a_waiting_follower_is_woken_by_an_append_and_a_waiting_consumer_by_the_watermark(make: Make) -> None:
    """Each is woken once, and neither by the other's event."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    follower: list[FetchResponse] = []
    consumer: list[Any] = []
    leader.send(0, max_wait_ms=500).addCallback(follower.append)
    leader.broker.start(ApiKey.FETCH, 11, fetch(0, max_wait_ms=500)).addCallback(consumer.append)
    leader.append(b"a")
    assert (len(follower), len(consumer)) == (1, 0)
    leader.send(1, max_wait_ms=500).addCallback(follower.append)
    assert (len(follower), len(consumer)) == (1, 1)
    assert fetched(consumer[0]).records


def test_a_follower_gets_at_once_what_a_producer_writes_when_that_fetch_lets_them_go_on(make: Make) -> None:
    """The log is read before the watermark advances; otherwise, producers with several requests in flight and acks=all
    would advance at the pace of replica.fetch.wait.max.ms.
    """
    leader = make(replicas=[0, 1], isr=[0, 1])
    follower: list[FetchResponse] = []
    leader.broker.start(ApiKey.PRODUCE, 9, produce(batch(b"a"))).addCallback(lambda _: leader.append(b"b"))
    leader.send(1, max_wait_ms=500).addCallback(follower.append)
    [answer] = follower
    assert answer.topics[0].partitions[0].records


def test_a_follower_that_waited_is_told_of_a_deletion_of_records(make: Make) -> None:
    """Otherwise, the deletion would wait for one more fetch."""
    leader = make()
    leader.append(b"a")
    for follower in (1, 2):
        leader.fetch(1, follower)
    answers: list[FetchResponse] = []
    leader.send(1, max_wait_ms=500).addCallback(answers.append)
    delayed_delete_records.delete_records(leader.broker.services.replicas, T, 1)
    leader.pass_time(500)
    assert answers[0].topics[0].partitions[0].log_start_offset == 1


def test_every_request_of_a_session_is_a_fetch_of_all_its_partitions(make: Make) -> None:
    """An empty request shows that a follower which has everything is alive."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    session = leader.fetch_all(1, session_epoch=0).session_id
    assert session > 0
    for epoch in range(1, 4):
        leader.pass_time(20_000)
        answer = leader.fetch_all(1, session_id=session, session_epoch=epoch, topics=[])
        assert (answer.error_code, answer.topics) == (0, [])
    leader.append(b"b")
    leader.pass_time(20_000)
    leader.shrink()
    assert not leader.asked.changes
    leader.pass_time(20_000)
    leader.shrink()
    assert leader.asked.answer().isr == (0,)


def test_a_new_watermark_is_told_in_a_session_without_records(make: Make) -> None:
    leader = make()
    leader.append(b"a")
    session = leader.fetch_all(1, session_epoch=0).session_id
    leader.fetch(1, 2)
    [topic] = leader.fetch_all(1, session_id=session, session_epoch=1, topics=[]).topics
    assert topic.partitions[0].high_watermark == 1


def test_who_is_no_replica_is_told_to_try_later(make: Make) -> None:
    """The sender knows more than this broker, or less; its fetch does not count."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    assert leader.fetch(0, 2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert leader.fetch(0, 2, OLD_VERSION).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    alone = leader.broker.lead("alone", leader_epoch=4)
    leader.topic_id = alone
    assert leader.fetch(0, 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_of_another_epoch_is_refused_and_not_counted(make: Make, epoch: int, code: ErrorCode) -> None:
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a")
    assert leader.fetch(1, current_leader_epoch=epoch).error_code == code
    assert leader.high_watermark == 0


def test_a_follower_whose_log_parted_is_told_where(make: Make) -> None:
    """The fetch does not count, returns no records and does not wait (KIP-595)."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a", b"b")
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=6, replicas=[0, 1], isr=[0, 1]) == 0
    leader.append(b"c")
    known = {"current_leader_epoch": 6, "max_wait_ms": 500}
    for offset, last_fetched_epoch in ((3, 4), (2, 5)):
        answer = leader.fetch(offset, last_fetched_epoch=last_fetched_epoch, **known)
        assert (answer.error_code, size(answer), answer.diverging_epoch) == (0, 0, EpochEndOffset(4, 2))
    assert leader.high_watermark == 0
    assert leader.fetch(2, last_fetched_epoch=4, **known).diverging_epoch is None
    assert leader.high_watermark == 2


def test_a_second_divergence_is_told_in_a_session_too(make: Make) -> None:
    """Nothing else has changed since the first divergence; without the second one the follower would fetch the same
    offset forever.
    """
    leader = make(leader_epoch=2)
    leader.append(b"a", b"b")
    leader.broker.lead_again("t", leader.topic_id, leader_epoch=4, replicas=[0, 1, 2], isr=[0, 1, 2])
    leader.append(b"c")
    first = leader.fetch_all(9, last_fetched_epoch=3, session_epoch=0)
    assert first.topics[0].partitions[0].diverging_epoch == EpochEndOffset(2, 2)
    session = {"session_id": first.session_id, "session_epoch": 1}
    second = leader.fetch_all(5, last_fetched_epoch=2, **session)
    assert second.topics[0].partitions[0].diverging_epoch == EpochEndOffset(2, 2)


def test_offsets_out_of_range_are_refused_both_ways(make: Make) -> None:
    """The offset lies before the log, after it, or where an epoch that the leader never had would end."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.append(b"a", b"b")
    leader.fetch(2)
    leader.partition.log.increment_log_start_offset(1)
    for offset, last_fetched_epoch in ((3, -1), (0, -1), (0, 4), (2, 9)):
        answer = leader.fetch(offset, last_fetched_epoch=last_fetched_epoch)
        assert (answer.error_code, answer.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    assert leader.high_watermark == 2


def test_a_follower_may_fetch_before_the_metadata_name_the_topic(make: Make) -> None:
    """LeaderAndIsr contained the topic id, but UpdateMetadata has not arrived yet."""
    leader = make()
    leader.append(b"a")
    leader.broker.services.metadata.topic_names.clear()
    assert size(leader.fetch(0)) > 0


def test_a_follower_that_waits_may_ask_for_what_is_newly_led(make: Make) -> None:
    """The follower may receive LeaderAndIsr later than the leader: its next fetches wait for a short time first."""
    leader = make()
    leader.pass_time(1_000)
    answered: list[Any] = []
    leader.send(0, max_wait_ms=500).addCallback(answered.append)
    leader.pass_time(400)
    assert not answered
    leader.broker.lead("u", replicas=[0, 1, 2], isr=[0, 1, 2])
    assert len(answered) == 1
    waits_ms = []
    while len(answered) < 8:
        count, waited_ms = len(answered), 0
        leader.send(0, max_wait_ms=500).addCallback(answered.append)
        while len(answered) == count:
            leader.pass_time(10)
            waited_ms += 10
        waits_ms.append(waited_ms)
    assert waits_ms == pytest.approx([20, 20, 40, 80, 160, 320, 500], abs=10)


def test_deleted_records_are_gone_when_all_that_live_have_followed(make: Make) -> None:
    """The deletion completes when all live followers have deleted the records, or when the request times out."""
    leader = make()
    leader.append(b"a", b"b")
    for follower in (1, 2):
        leader.fetch(2, follower)
    answers: list[Any] = []
    for _ in range(2):
        leader.broker.start(ApiKey.DELETE_RECORDS, 2, delete_records(1)).addCallback(answers.append)
        leader.fetch(2, 1, log_start_offset=1)
        assert not answers
        leader.pass_time(500)
        [answer] = answers
        assert answer.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        answers.clear()
    leader.broker.start(ApiKey.DELETE_RECORDS, 2, delete_records(-1)).addCallback(answers.append)
    leader.fetch(2, 1, log_start_offset=2)
    leader.fetch(2, 2, log_start_offset=2)
    result = answers[0].topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 2)


def delete_records(offset: int) -> Any:
    request = codec.request(ApiKey.DELETE_RECORDS)
    partition = request.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=offset)
    topics = [request.DeleteRecordsTopic(name="t", partitions=[partition])]
    return request(topics=topics, timeout_ms=500)


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.OFFSET_NOT_AVAILABLE), (4, ErrorCode.LEADER_NOT_AVAILABLE)]
)
def test_consumers_are_not_told_an_end_that_goes_back(make: Make, version: int, code: ErrorCode) -> None:
    """A new leader does not know yet what the previous one had committed; followers may request the log end."""
    leader = make()
    leader.append(b"a", b"b")
    assert leader.broker.lead_again("t", leader.topic_id, leader_epoch=5, replicas=[0, 1, 2], isr=[0, 1, 2]) == 0
    assert end_offset(leader, -1, version) == (code, -1)
    assert end_offset(leader, 1, version) == (0, 2)
    for follower in (1, 2):
        leader.fetch(2, follower, current_leader_epoch=5)
    assert end_offset(leader, -1, version) == (0, 2)


def end_offset(leader: Leader, replica_id: int, version: int) -> tuple[int, int]:
    request = codec.request(ApiKey.LIST_OFFSETS)
    asked = request.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topics = [request.ListOffsetsTopic(name="t", partitions=[asked])]
    message = request(replica_id=replica_id, isolation_level=0, topics=topics)
    [topic] = leader.broker.ask(ApiKey.LIST_OFFSETS, version, message).topics
    return topic.partitions[0].error_code, topic.partitions[0].offset


def test_a_disk_that_flushes_slowly_holds_back_the_leaders_own_part(make: Make) -> None:
    """With ``flush.messages`` only the leader's durable records count; its followers may be ahead."""
    leader = make(replicas=[0, 1], isr=[0, 1])
    leader.partition.flush_begins(0)
    leader.append(b"a")
    leader.fetch(1)
    assert leader.high_watermark == 0
    leader.partition.log.flush()
    leader.partition.flush_ended()
    assert leader.high_watermark == 1


def test_a_follower_that_waited_is_told_of_every_partition_that_has_news(make: Make) -> None:
    """The response has one partition's records, another's advanced high watermark, and nothing of the rest."""
    leader = make(replicas=[0, 1, 2], isr=[0, 1, 2])
    other = leader.broker.lead("other", 3, replicas=[0, 1, 2], isr=[0, 1, 2], leader_epoch=4)
    produced(leader.broker, produce(batch(b"a"), topic="other", partition=1, acks=1))
    topics = [
        FetchTopic(None, leader.topic_id.bytes, [FetchPartition(0, 0, 1 << 20, 4, -1, 0)]),
        FetchTopic(None, other.bytes, [FetchPartition(each, int(each == 1), 1 << 20, 4, -1, 0) for each in range(3)]),
    ]
    first = leader.fetch_all(0, topics=topics, session_epoch=0, session_id=0)
    answers: list[FetchResponse] = []
    leader.send(0, topics=[], session_id=first.session_id, session_epoch=1, max_wait_ms=500).addCallback(answers.append)
    partition = leader.broker.services.replicas.partition(TopicPartition("other", 1))
    partition.remotes.followers[2].log_end_offset = 1  # type: ignore[union-attr]
    assert partition.advance_high_watermark(0) and not answers
    leader.broker.services.replicas.changes.note(partition.tp)
    leader.append(b"b")
    [answer] = answers
    told = {(topic.topic_id, each.partition): each for topic in answer.topics for each in topic.partitions}
    assert told.keys() == {(leader.topic_id.bytes, 0), (other.bytes, 1)}
    assert size(told[leader.topic_id.bytes, 0]) > 0 and told[other.bytes, 1].high_watermark == 1

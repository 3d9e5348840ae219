"""The generation for a user that holds records of revoked partitions."""

from twisted.internet.task import Clock

from kafka_zk.clients.connection.waiting import run
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import advance, finish
from tests.kafka_zk.clients.consumer.fake_broker_group import joined, two_partitions


def test_who_holds_records_that_were_taken_away_is_in_no_generation(clock: Clock) -> None:
    """The member is removed from its group while the user works, and rejoins in the background (in Java: in the next
    ``poll``). If the user then commits in a transaction (docs/explanation/exactly-once.md), the commit must be
    refused.
    """
    brokers = two_partitions(clock)
    consumer = joined(clock, brokers, enable_auto_commit=False)
    records = finish(clock, run(consumer.poll(1_000)))
    before = consumer.group_metadata()
    brokers.errors = [(ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID)]
    advance(clock, 10)  # the user is busy
    assert records and brokers.generation == before.generation_id + 1, "the member has rejoined"
    now = consumer.group_metadata()
    assert now.generation_id != brokers.generation, "the group would accept offsets of a former owner"

"""``BlockingConsumer`` with a broker process: everything beyond sharing a topic."""

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.consumer.errors import CommitRefused, NoOffsetForPartition
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.groups.members import write
from tests.integration.processes import TIMEOUT_S, wait_for

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(group_cluster: EmbeddedCluster) -> EmbeddedCluster:
    return group_cluster


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def topic(cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    return make_topic(partitions=4, cluster=cluster)


class Joined(BlockingConsumer):
    """A member of a group that is named after the topic."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, listener: Any = None, **options: Any) -> None:
        defaults: dict[str, Any] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200}
        super().__init__(
            [topic] if "topics" not in options else options.pop("topics"), listener=listener,
            bootstrap_servers=cluster.bootstrap, group_id=f"g-{topic}",
            **({"auto_offset_reset": "earliest"} | defaults | options),
        )  # fmt: skip

    def numbers(self) -> set[int]:
        """The partitions that the member owns after a poll."""
        self.poll(20)
        return {tp.partition for tp in self.assignment()}


def committed(cluster: EmbeddedCluster, topic: str) -> dict[int, int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": f"g-{topic}", "log_level": 3}
    )
    try:
        wanted = [confluent_kafka.TopicPartition(topic, number) for number in range(4)]
        found = consumer.committed(wanted, timeout=TIMEOUT_S)
        return {each.partition: each.offset for each in found if each.offset >= 0}
    finally:
        consumer.close()


class Heard(RebalanceListener):
    def __init__(self) -> None:
        self.lines: list[tuple[str, set[int]]] = []

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> None:
        self.lines.append(("releases", {tp.partition for tp in partitions}))

    def before_starting_fetchers(self, consumer_id: str, partitions: Mapping[TopicPartition, int]) -> None:
        self.lines.append(("starts", {tp.partition for tp in partitions}))


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_an_eager_member_gives_back_everything_a_cooperative_one_what_moves(
    cluster: EmbeddedCluster, topic: str, stack: ExitStack, strategy: str
) -> None:
    heard = Heard()
    first = stack.enter_context(Joined(cluster, topic, heard, partition_assignment_strategy=strategy))
    wait_for(lambda: first.numbers() == {0, 1, 2, 3}, "all partitions")
    second = stack.enter_context(Joined(cluster, topic, partition_assignment_strategy=strategy))
    wait_for(lambda: (len(first.numbers()), len(second.numbers())) == (2, 2), "a fair share")
    kept = first.numbers()
    if strategy == "range":
        assert heard.lines == [("starts", {0, 1, 2, 3}), ("releases", {0, 1, 2, 3}), ("starts", kept)]
    else:
        assert heard.lines == [("starts", {0, 1, 2, 3}), ("releases", {0, 1, 2, 3} - kept)]


def test_who_does_not_come_back_for_records_loses_them_to_others_until_they_do(
    cluster: EmbeddedCluster, topic: str, stack: ExitStack
) -> None:
    """max.poll.interval.ms ends the slow member's ownership. Another member then reads the records again, and the slow
    member's commit is refused.
    """
    write(cluster, topic, 1, 3)
    slow = stack.enter_context(Joined(cluster, topic, max_poll_interval_ms=1500, enable_auto_commit=False))
    held = wait_for(lambda: slow.poll(20), "records")
    assert [record.offset for record in held] == [0, 1, 2]
    other = stack.enter_context(Joined(cluster, topic))
    again = wait_for(lambda: other.poll(20), "the same records")
    assert [record.offset for record in again] == [0, 1, 2]
    with pytest.raises(CommitRefused):
        slow.commit({held[0].tp: 3})
    wait_for(lambda: (len(slow.numbers()), len(other.numbers())) == (2, 2), "its return")


def test_without_auto_commit_only_the_user_commits(cluster: EmbeddedCluster, topic: str) -> None:
    write(cluster, topic, 1, 5)
    with Joined(cluster, topic, enable_auto_commit=False, max_poll_records=2) as consumer:
        records = wait_for(lambda: consumer.poll(20), "records")
        assert len(records) == 2 and committed(cluster, topic) == {}
        consumer.commit()
        assert committed(cluster, topic)[0] == 2
        with pytest.raises(CommitRefused, match="does not own"):
            consumer.commit({TopicPartition(topic, 17): 1})
        consumer.poll(20)
    assert committed(cluster, topic)[0] == 2


def test_no_start_is_an_error_where_auto_offset_reset_is_none(cluster: EmbeddedCluster, topic: str) -> None:
    with Joined(cluster, topic, auto_offset_reset="none") as consumer, pytest.raises(NoOffsetForPartition):
        consumer.poll(TIMEOUT_S * 1000)


def test_a_static_member_that_returns_in_time_has_its_partitions_back_without_a_rebalance(
    cluster: EmbeddedCluster, topic: str, stack: ExitStack
) -> None:
    heard = Heard()
    other = stack.enter_context(Joined(cluster, topic, heard))
    static = Joined(cluster, topic, group_instance_id="i")
    wait_for(lambda: (len(static.numbers()), len(other.numbers())) == (2, 2), "a fair share")
    had, before = static.numbers(), len(heard.lines)
    static.close()
    back = stack.enter_context(Joined(cluster, topic, group_instance_id="i"))
    wait_for(lambda: back.numbers() == had, "its partitions")
    other.poll(500)
    assert len(heard.lines) == before


def test_the_older_of_two_static_members_is_fenced(cluster: EmbeddedCluster, topic: str, stack: ExitStack) -> None:
    older = stack.enter_context(Joined(cluster, topic, group_instance_id="i"))
    wait_for(lambda: len(older.numbers()) == 4, "all partitions")
    stack.enter_context(Joined(cluster, topic, group_instance_id="i")).start()
    with pytest.raises(BrokerError) as fenced:
        wait_for(lambda: older.poll(20) and False, "the refusal")
    assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_topic_may_come_later_and_get_more_partitions(
    cluster: EmbeddedCluster, make_topic: MakeTopic, stack: ExitStack
) -> None:
    name = f"later-{uuid.uuid4().hex[:8]}"
    consumer = stack.enter_context(Joined(cluster, name, metadata_max_age_ms=200))
    assert consumer.numbers() == set()
    make_topic(name, partitions=2, cluster=cluster)
    wait_for(lambda: consumer.numbers() == {0, 1}, "its partitions")
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_partitions(name, 3)
    wait_for(lambda: consumer.numbers() == {0, 1, 2}, "the new one, too")


def test_close_in_another_thread_ends_the_iteration(cluster: EmbeddedCluster, topic: str) -> None:
    write(cluster, topic, 4, 1)
    consumer = Joined(cluster, topic)
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.extend(record.partition for record in consumer))
    reader.start()
    wait_for(lambda: len(read) == 4, "the records")
    consumer.close()
    reader.join(TIMEOUT_S)
    assert not reader.is_alive()
    assert committed(cluster, topic) == dict.fromkeys(range(4), 1)

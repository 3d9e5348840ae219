"""Groups through ZooKeeper, on a real ZooKeeper and real brokers: the consumer's promises, and old complaints.

The numbers are those of the collected complaints about consumers that coordinated through ZooKeeper.
"""

import threading
import uuid
from collections.abc import Callable, Collection

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from kafka_zk.clients.consumer.errors import CommitRefused
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.rebalance.events import OffsetsOutdated
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import FencedInstanceId, NoNode
from kafka_zk.registry.client.events import Reread
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.testing.plugin import MakeCluster, MakeTopic, MakeZkClient
from tests.integration.groups.members import MakeMember, Member, make_member, settled, write
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration
__all__ = ["make_member"]

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative")


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def delivered(*members: Member) -> dict[TopicPartition, set[int]]:
    together: dict[TopicPartition, set[int]] = {}
    for member in members:
        for tp, offsets in list(member.offsets.items()):
            together.setdefault(tp, set()).update(offsets)
    return together


def all_delivered(count: int, partitions: int, *members: Member) -> bool:
    found = delivered(*members)
    return len(found) == partitions and all(offsets == set(range(count)) for offsets in found.values())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_first_consumer_goes_on_when_the_second_joins_and_takes_all_when_it_goes(
    strategy: str, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Complaint 10: A has 6 partitions, then A and B have 3 each, then A has 6 again; records flow all the time."""
    topic = make_topic(partitions=6)
    write(kafka_zk_cluster, topic, 6, 10)
    first = make_member([topic], group_id=group, partition_assignment_strategy=strategy)
    wait_for(lambda: all_delivered(10, 6, first), "the first records")
    second = make_member([topic], group_id=group, partition_assignment_strategy=strategy)
    settled(first, second, partitions=6)
    write(kafka_zk_cluster, topic, 6, 10)
    wait_for(lambda: all_delivered(20, 6, first, second), "records for both")
    assert len(second.offsets) == 3 and all(min(offsets) == 10 for offsets in second.offsets.values())
    second.close()
    settled(first, partitions=6)
    write(kafka_zk_cluster, topic, 6, 10)
    wait_for(lambda: all_delivered(30, 6, first, second), "records for the first again")


def test_a_member_that_waits_for_records_without_a_timeout_hands_over(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Complaint 7: a blocked read holds no lock that a rebalance needs. The backoff of ten minutes exceeds the test's
    time.
    """
    topic = make_topic(partitions=4)
    options = {"group_id": group, "rebalance_backoff_ms": 600_000}
    first = make_member([topic], **options)
    settled(first, partitions=4)
    second = make_member([topic], **options)
    settled(first, second, partitions=4)


def test_an_expired_member_joins_again_and_its_old_commits_are_refused(
    kafka_zk_cluster: EmbeddedCluster,
    make_topic: MakeTopic,
    make_member: MakeMember,
    group: str,
    expire_session: Callable[[int], None],
) -> None:
    """Records handed out before the session ended must not be committed afterwards: they are delivered again."""
    topic = make_topic(partitions=1)
    write(kafka_zk_cluster, topic, 1, 10)
    member = make_member([topic], reading=False, group_id=group, auto_commit_enable=False)
    consumer, tp = member.consumer, TopicPartition(topic, 0)
    first = poll_some(consumer)
    old_session = member.session_id
    expire_session(old_session)
    wait_for(lambda: member.session_id != old_session, "a new session")
    wait_for(lambda: consumer.assignment() == [tp], "the partition again")
    with pytest.raises(CommitRefused, match="it was revoked"):
        consumer.commit()
    again = poll_some(consumer)
    assert again[0] == first[0] == 0
    consumer.commit()


def poll_some(consumer: BlockingZookeeperConsumer) -> list[int]:
    records = wait_for(lambda: consumer.poll(500), "records")
    return [record.offset for record in records]


def test_offsets_are_resumed_by_the_next_consumer(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Leaving the block without an exception commits all returned records; the next consumer gets the others, once."""
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, 2, 50)
    seen: list[tuple[int, int]] = []
    for _ in range(4):
        with BlockingZookeeperConsumer(
            [topic],
            group_id=group,
            zookeeper_connect=kafka_zk_cluster.zookeeper_connect,
            auto_offset_reset="smallest",
            consumer_timeout_ms=30_000,
        ) as consumer:
            for record in consumer:
                seen.append((record.partition, record.offset))
                if len(seen) % 25 == 0:
                    break
    assert len(seen) == len(set(seen)) == 100


def test_streams_feed_threads_and_end_with_the_consumer(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, group: str
) -> None:
    """Each thread has its own partitions; closing ends all iterators and commits the processed records of each."""
    topic = make_topic(partitions=4)
    write(kafka_zk_cluster, topic, 4, 25)
    consumer = BlockingZookeeperConsumer(
        group_id=group, zookeeper_connect=kafka_zk_cluster.zookeeper_connect, auto_offset_reset="smallest"
    )
    consumer.subscribe([topic], streams=2)
    seen: list[list[tuple[int, int]]] = [[], []]

    def read(number: int) -> None:
        for record in consumer.streams[number]:
            seen[number].append((record.partition, record.offset))

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    wait_for(lambda: sum(map(len, seen)) == 100, "all records")
    consumer.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    homes = [{partition for partition, _ in part} for part in seen]
    assert homes[0].isdisjoint(homes[1]) and homes[0] | homes[1] == {0, 1, 2, 3}
    follower = Member([topic], group_id=group, zookeeper_connect=kafka_zk_cluster.zookeeper_connect)
    settled(follower, partitions=4)
    positions = [follower.consumer.position(TopicPartition(topic, number)) for number in range(4)]
    follower.close()
    assert positions == [25] * 4 and follower.count == 0


def test_a_new_topic_of_the_pattern_is_consumed(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Later topics that match the white list join the subscription."""
    prefix = f"orders-{uuid.uuid4().hex[:8]}"
    make_topic(f"{prefix}.eu")
    member = make_member([], white_list=rf"{prefix}\..*", group_id=group)
    settled(member, partitions=1)
    make_topic(f"{prefix}.us", partitions=2)
    settled(member, partitions=3)
    write(kafka_zk_cluster, f"{prefix}.us", 2, 5)
    wait_for(lambda: member.count == 10, "records of the new topic")


@pytest.mark.parametrize("strategy", ["range", "cooperative"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    stays: bool,
    strategy: str,
    kafka_zk_cluster: EmbeddedCluster,
    make_topic: MakeTopic,
    make_member: MakeMember,
    make_zk_client: MakeZkClient,
    group: str,
) -> None:
    """The new log outgrows the old offset before the consumer reads it, with or without a live member during the
    change.
    """
    topic = make_topic(partitions=2)
    options = {"group_id": group, "partition_assignment_strategy": strategy}
    write(kafka_zk_cluster, topic, 2, 10)
    member = make_member([topic], **options)
    client = make_zk_client(kafka_zk_cluster.zookeeper_connect)
    offset_paths = [znodes.offset_path(group, topic, number) for number in range(2)]

    def committed() -> list[bytes | None]:
        return [client.get(path).get()[0] for path in offset_paths]  # type: ignore[attr-defined]

    wait_for(lambda: member.count == 20 and committed() == [b"10", b"10"], "the first topic")
    if not stays:
        member.close()
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        admin.delete_topics([topic])
        wait_for(lambda: client.exists(topic_path(topic)).get() is None, "the deletion")  # type: ignore[attr-defined]
    make_topic(topic, partitions=2)
    write(kafka_zk_cluster, topic, 2, 30)
    if not stays:
        member = make_member([topic], **options)
    before = 20 if stays else 0
    wait_for(lambda: member.count >= before + 60 and committed() == [b"30", b"30"], "all of the second topic")
    assert [offsets[-30:] for offsets in member.offsets.values()] == [list(range(30))] * 2
    if not stays:
        assert {tp for event in member.events if isinstance(event, OffsetsOutdated) for tp in event.partitions} == set(
            member.offsets
        )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_owner_znode_that_is_removed_by_hand_is_claimed_again(
    strategy: str,
    kafka_zk_cluster: EmbeddedCluster,
    make_topic: MakeTopic,
    make_member: MakeMember,
    make_zk_client: MakeZkClient,
    group: str,
) -> None:
    topic = make_topic(partitions=4)
    options = {"group_id": group, "partition_assignment_strategy": strategy}
    members = [make_member([topic], **options) for _ in range(2)]
    settled(*members, partitions=4)
    client = make_zk_client(kafka_zk_cluster.zookeeper_connect)
    paths = [znodes.owner_path(group, topic, number) for number in range(4)]

    def owner_znodes() -> list[tuple[bytes, ZnodeStat]] | None:
        try:
            return [client.get(path).get() for path in paths]  # type: ignore[attr-defined]
        except NoNode:
            return None

    wait_for(lambda: (found := owner_znodes()) and found == owner_znodes(), "the owner znodes of a settled group")
    before = owner_znodes()
    assert before
    for path in paths[:3]:
        client.delete(path).get()  # type: ignore[attr-defined]
    wait_for(owner_znodes, "the owner znodes")
    after = owner_znodes()
    assert after
    assert [data for data, _ in after] == [data for data, _ in before]
    assert [new.czxid == old.czxid for (_, new), (_, old) in zip(after, before, strict=True)] == [False] * 3 + [True]
    write(kafka_zk_cluster, topic, 4, 10)
    wait_for(lambda: all_delivered(10, 4, *members), "records")


def test_a_broker_restart_is_outlived(
    make_cluster: MakeCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """The only broker comes back on its port, and the same consumer reads the new records."""
    cluster = make_cluster(broker_count=1)
    topic = make_topic(partitions=2, cluster=cluster)
    write(cluster, topic, 2, 5)
    member = make_member([topic], group_id=group, zookeeper_connect=cluster.zookeeper_connect)
    wait_for(lambda: all_delivered(5, 2, member), "the first records")
    cluster.brokers[0].stop()
    cluster.restart_broker(0)
    write(cluster, topic, 2, 5)
    wait_for(lambda: all_delivered(10, 2, member), "records after the restart")


def test_a_listener_may_commit_before_partitions_go(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """The listener runs in a thread of its own and uses the consumer's blocking methods."""
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, 2, 10)
    released: list[TopicPartition] = []

    class Committing(RebalanceListener):
        def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> None:
            first.consumer.commit(dict.fromkeys(partitions, 7))
            released.extend(partitions)

    first = make_member([topic], group_id=group, auto_commit_enable=False, listener=Committing())
    wait_for(lambda: all_delivered(10, 2, first), "all records")
    second = make_member([topic], group_id=group)
    settled(first, second, partitions=2)
    write(kafka_zk_cluster, topic, 2, 1)
    wait_for(lambda: second.count, "records for the second")
    (tp,) = second.offsets
    assert tp in released and second.offsets[tp][0] == 7


def test_a_static_member_is_unique_and_returns_to_its_partitions(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """A second live holder of the instance id is refused with one sentence, and the first one stays undisturbed."""
    topic = make_topic(partitions=4)
    options = {"group_id": group, "partition_assignment_strategy": "cooperative", "session_timeout_ms": 60_000}
    first = make_member([topic], group_instance_id="a", **options)
    second = make_member([topic], group_instance_id="b", **options)
    settled(first, second, partitions=4)
    before = second.assignment
    with pytest.raises(FencedInstanceId, match="b"):
        make_member([topic], group_instance_id="b", **options)
    second.close()
    wait_for(lambda: first.assignment, "the first one's partitions")
    again = make_member([topic], group_instance_id="b", **options)
    wait_for(lambda: again.assignment == before, "its partitions")
    assert len(first.assignment) == 2


def test_a_chroot_that_is_not_there_yet_is_made_and_a_bare_slash_is_none(
    make_cluster: MakeCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Complaint 26: the znodes of brokers, topics and groups are under the chroot; a trailing slash changes nothing."""
    cluster = make_cluster(broker_count=1)
    topic = make_topic(cluster=cluster)
    write(cluster, topic, 1, 3)
    assert "/" in cluster.zookeeper_connect
    member = make_member([topic], group_id=group, zookeeper_connect=cluster.zookeeper_connect + "/")
    wait_for(lambda: member.count == 3, "the records")
    early = make_member(["none-yet"], group_id=group, zookeeper_connect=cluster.zookeeper_connect + "/not-made")
    assert early.assignment == []


def test_a_join_costs_each_member_the_same_however_many_there_are(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_member: MakeMember, group: str
) -> None:
    """Complaint 21, the herd: the reads of each member per join stay constant while the group grows."""
    topic = make_topic(partitions=12)
    members: list[Member] = []
    reads: list[int] = []
    for _ in range(6):
        marks = [len(member.events) for member in members]
        members.append(make_member([topic], group_id=group, partition_assignment_strategy="cooperative"))
        settled(*members, partitions=12)
        per_member = [
            sum(isinstance(event, Reread) for event in member.events[mark:])
            for member, mark in zip(members, marks, strict=False)
        ]
        reads.append(max(per_member, default=0))
    assert max(reads) <= 6, reads


def test_the_group_leaves_nothing_but_its_offsets(
    kafka_zk_cluster: EmbeddedCluster,
    make_topic: MakeTopic,
    make_member: MakeMember,
    make_zk_client: MakeZkClient,
    group: str,
) -> None:
    """Complaint 23: no member and no owner stays behind; only the offsets remain (22)."""
    topic = make_topic(partitions=2)
    write(kafka_zk_cluster, topic, 2, 5)
    member = make_member([topic], group_id=group)
    wait_for(lambda: member.count == 10, "the records")
    member.close()
    client = make_zk_client(kafka_zk_cluster.zookeeper_connect)

    async def left() -> tuple[list[str], list[str], list[bytes | None]]:
        ids, _ = await client.children(znodes.ids_path(group))
        owners, _ = await client.children(znodes.owners_path(group, topic))
        offsets = [(await client.get(znodes.offset_path(group, topic, number)))[0] for number in range(2)]
        return ids, owners, offsets

    assert run_blocking(left()) == ([], [], [b"5", b"5"])

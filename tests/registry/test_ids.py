"""Ids that are assigned only once (cluster, producer and broker ids), and the parents of all znodes."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.broker_ids import generate_broker_id
from kafka_zk.registry.client.errors import TooManyProducerIds
from kafka_zk.registry.client.pipeline import results
from kafka_zk.registry.cluster_id import get_or_create, random_id
from kafka_zk.registry.features import read_features, write_operation
from kafka_zk.registry.isr import notify_isr_change, notify_log_dir_failure
from kafka_zk.registry.paths import PERSISTENT_PATHS, ensure_persistent_paths
from kafka_zk.registry.producer_ids import allocate_block
from kafka_zk.registry.znodes import producer_ids
from kafka_zk.registry.znodes.feature import FinalizedFeatures
from kafka_zk.registry.znodes.isr import ISR_CHANGES, LOG_DIR_EVENTS, decode_isr_change, decode_log_dir_event
from kafka_zk.registry.znodes.producer_ids import ProducerIdBlock
from tests.registry.world import World


def test_all_brokers_agree_on_the_cluster_id(campaign_seed: int) -> None:
    world = World(4, campaign_seed)
    asking = [world.scheduler.start(get_or_create(client, random_id())) for client in world.clients]
    assert len(set(world.scheduler.run(results(asking)))) == 1


def test_cluster_ids_look_like_kafkas() -> None:
    ids = {random_id() for _ in range(100)}
    assert {len(one) for one in ids} == {22}
    assert len(ids) == 100
    assert not any(one.startswith("-") for one in ids)


def test_no_producer_id_is_given_out_twice(campaign_seed: int) -> None:
    world = World(4, campaign_seed)

    async def take(broker_id: int) -> list[range]:
        return [await allocate_block(world.clients[broker_id], broker_id) for _ in range(5)]

    taking = [world.scheduler.start(take(number)) for number in range(4)]
    blocks = sorted((block.start, block.stop) for some in world.scheduler.run(results(taking)) for block in some)
    assert blocks == [(number * 1000, (number + 1) * 1000) for number in range(20)]


def test_producer_ids_end() -> None:
    world = World(1)
    last = producer_ids.encode(ProducerIdBlock(0, 0, 2**63 - 1000))
    world.scheduler.run(world.clients[0].set(producer_ids.PRODUCER_ID_BLOCK, last))
    with pytest.raises(TooManyProducerIds):
        world.scheduler.run(allocate_block(world.clients[0], 0))


def test_broker_ids_start_at_1001_and_are_unique() -> None:
    world = World(3)
    asking = [world.scheduler.start(generate_broker_id(client)) for client in world.clients for _ in range(2)]
    assert sorted(world.scheduler.run(results(asking))) == [1001, 1002, 1003, 1004, 1005, 1006]


def test_ids_work_on_an_empty_zookeeper() -> None:
    world = World(1)
    client = world.zookeeper.client("fresh", chroot="/fresh")
    assert world.scheduler.run(allocate_block(client, 3)) == range(1000)
    assert world.scheduler.run(generate_broker_id(client)) == 1001
    assert world.scheduler.run(get_or_create(client, "mine")) == "mine"


def test_all_parents_are_made_in_one_round_trip() -> None:
    world = World(1)
    client = world.zookeeper.client("fresh", chroot="/fresh")
    for _ in range(2):
        began_ms = world.scheduler.now_ms
        world.scheduler.run(ensure_persistent_paths(client))
        assert world.scheduler.now_ms - began_ms < 5
    assert all(world.zookeeper.tree.exists(f"/fresh{path}") is not None for path in PERSISTENT_PATHS)


def test_features_are_written_only_when_they_differ() -> None:
    world = World(1)
    client = world.clients[0]
    wanted = FinalizedFeatures()
    assert world.scheduler.run(read_features(client)) is None
    first = write_operation(None, wanted)
    assert first is not None
    world.scheduler.run(client.multi([first]))
    present = world.scheduler.run(read_features(client))
    assert present == (wanted, 0)
    assert write_operation(present, wanted) is None
    changed = write_operation(present, FinalizedFeatures({"f": 2}))
    assert changed is not None
    world.scheduler.run(client.multi([changed]))
    assert world.scheduler.run(read_features(client)) == (FinalizedFeatures({"f": 2}), 1)


def test_notifications_to_the_controller_are_collected() -> None:
    world = World(1)
    client = world.clients[0]

    async def told(parent: str) -> list[bytes]:
        names, _ = await client.children(parent)
        return [(await client.get(f"{parent}/{name}"))[0] or b"" for name in sorted(names)]

    async def story() -> None:
        await notify_isr_change(client, [TopicPartition("t", 0), TopicPartition("t", 1)])
        await notify_isr_change(client, [TopicPartition("t", 1)])
        changes = [decode_isr_change("path", data) for data in await told(ISR_CHANGES)]
        assert changes == [{TopicPartition("t", 0), TopicPartition("t", 1)}, {TopicPartition("t", 1)}]
        await notify_log_dir_failure(client, 7)
        assert [decode_log_dir_event("path", data) for data in await told(LOG_DIR_EVENTS)] == [7]

    world.scheduler.run(story())

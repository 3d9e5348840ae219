"""Hostile znodes under a live controller: an unrelated topic can still be created, old ones are served after a restart.

The controllers are real, ZooKeeper is in memory and the brokers only receive
(``tests/kafka_zk/broker/controller/world``), so that a round of many mutations takes a second. More of them: ``pytest
tests/fuzz/test_znodes.py --rounds 200``.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.topics import metadata
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.broker_ids import generate_broker_id
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.producer_ids import allocate_block
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH
from tests.fuzz.znodes import VICTIMS, Mutation, ZnodeSource
from tests.kafka_zk.broker.controller.world import Broker, Cluster, led_by

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_fails_unexpectedly")]

MUTATIONS = 60
OLD = {"old": {0: [0], 1: [1], 2: [2]}, "pair": {0: [0, 1], 1: [1, 2], 2: [2, 0]}}


class World:
    """Three brokers, and the reads that each of them makes beside its controller."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed=seed)
        self.source = ZnodeSource(self.cluster.scheduler.random, [0, 1, 2])
        self.number = 0
        for topic, assignment in OLD.items():
            self.create(topic, assignment)
        for topic in VICTIMS:
            self.create(topic, {0: [0], 1: [1], 2: [2, 1]})
        self.cluster.settle()
        for broker in self.cluster.brokers:
            self.watch(broker)

    def create(self, topic: str, assignment: dict[int, list[int]]) -> None:
        self.number += 1
        self.cluster.create(topic, assignment, f"{self.number:021d}Q")

    def watch(self, broker: Broker) -> None:
        """Follow notifications like a broker: read the entities whose config changed."""
        configs = ConfigRegistry(broker.client)

        def changed(entity_type: str, entity_name: str) -> None:
            reading = ensureDeferred(configs.synced_entities(entity_type, [entity_name]))
            reading.addErrback(lambda failure: failure.trap(RegistryError))

        configs.watch_changes(changed)

    def read(self) -> None:
        """The reads of a broker at its start or for a client; any of them may be refused."""
        client = self.cluster.tool
        offsets = OffsetRegistry(client, "g")
        for work in (
            allocate_block(client, 0),
            generate_broker_id(client),
            ConsumerRegistry(client, "g").members(),
            offsets.fetch([TopicPartition(topic, 0) for topic in VICTIMS]),
            offsets.partitions(),
            ConfigRegistry(client).synced_entities("topics", list(VICTIMS)),
        ):
            try:
                self.cluster.scheduler.run(work)
            except RegistryError:
                continue

    def mend(self) -> None:
        """Restore the znodes that an election needs, independently of the controller."""
        known = max(broker.controller_epoch for broker in self.cluster.brokers)
        for mutation in (Mutation(CONTROLLER_EPOCH, b"%d" % known), Mutation(CONTROLLER, delete=True)):
            self.cluster.scheduler.run(mutation.apply(self.cluster.tool))
        self.cluster.settle(3000)

    def can_create(self) -> None:
        """Create a topic on the brokers whose registrations are still their own."""
        (active,) = self.cluster.active
        live = sorted(active.controller.context.brokers.keys() & {0, 1, 2})
        topic = f"new-{self.number}"
        self.create(topic, {number: [broker_id] for number, broker_id in enumerate(live)})
        self.cluster.settle(2000)
        assert led_by(self.cluster, topic) == dict(enumerate(live))

    def restart(self) -> None:
        """All brokers end at the same time and come back after their old sessions have expired."""
        for broker_id in range(3):
            self.cluster.kill(broker_id)
        self.cluster.settle(10_000)
        tree, run = self.cluster.zookeeper.tree, self.cluster.scheduler.run
        for broker_id in range(3):  # a forged registration is not ephemeral, so no broker could take its place
            if tree.exists(f"/brokers/ids/{broker_id}") is not None:
                run(self.cluster.tool.delete(f"/brokers/ids/{broker_id}"))
        for broker_id in range(3):
            self.watch(self.cluster.restart(broker_id))
        self.cluster.settle(5000)

    def old_are_served(self) -> None:
        for topic, assignment in OLD.items():
            assert sorted(led_by(self.cluster, topic)) == sorted(assignment)
            for broker in self.cluster.brokers:
                assert sorted(broker.metadata.topics[topic]) == sorted(assignment)
                assert all(info.leader >= 0 for info in broker.metadata.topics[topic].values())

    def clients_get_metadata(self) -> None:
        """Metadata in the cache can be encoded in every version."""
        for broker in self.cluster.brokers:
            clock = self.cluster.scheduler.clock
            services: Any = SimpleNamespace(
                metadata=broker.metadata,
                authorizer=NoAuthorizer({"PLAINTEXT"}),
                cluster_id="c",
                clock=clock,
                memory=None,
            )
            context: Any = SimpleNamespace(listener_name="PLAINTEXT")
            for version in range(13):
                request = codec.request(ApiKey.METADATA)(topics=[] if version == 0 else None)
                header: Any = SimpleNamespace(api_version=version)
                answer = self.cluster.scheduler.run(metadata.handle(services, context, header, request))
                whole = b"".join(part for part in answer if isinstance(part, bytes | bytearray | memoryview))
                told = codec.decode_response(ApiKey.METADATA, version, memoryview(whole))
                assert set(OLD) <= {topic.name for topic in told.topics}


def test_hostile_znodes_harm_no_other_topic(campaign_seed: int) -> None:
    world = World(campaign_seed)
    scheduler = world.cluster.scheduler
    for number in range(1, MUTATIONS + 1):
        mutation = world.source.next()
        scheduler.run(mutation.apply(world.cluster.tool))
        world.cluster.settle(scheduler.random.choice([0, 1, 20, 500]))
        if number % 20 == 0:
            world.read()
            world.mend()
            world.can_create()
            world.clients_get_metadata()
    world.restart()
    world.mend()
    world.old_are_served()
    world.can_create()
    world.clients_get_metadata()


def test_every_mutation_by_itself(campaign_seed: int) -> None:
    """Each mutation is applied alone, before the election of a new controller, so that no other mutation hides its
    effect.
    """
    world = World(campaign_seed)
    for _ in range(10):
        world.cluster.scheduler.run(world.source.next().apply(world.cluster.tool))
        world.cluster.settle(50)
        world.mend()
        world.can_create()
    world.restart()
    world.mend()
    world.old_are_served()

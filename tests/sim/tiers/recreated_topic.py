"""A tiered topic that is deleted and created again with the same name, until ``stop``.

It has one partition and its own producer, and keeps all records. The run judges its objects.
"""

from collections.abc import Callable, Mapping
from random import Random

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.topics import topic_path
from kafka_zk.sim.world.clients import SEND_EVERY_S, SimProducer, make_admin
from kafka_zk.sim.world.history import History
from kafka_zk.sim.world.world import World

RECREATED = TopicPartition("recreated", 0)
_REPLICATION_FACTOR = 3
_LIVES_S = (3.0, 12.0)
_RETRIES_EVERY_S = 0.5


class RecreatedTopic:
    """``producer``: sends while the topic exists. Its records are not in the history of the run."""

    def __init__(
        self, world: World, tool: RegistryClient, configs: Mapping[str, str], note: Callable[[str], None]
    ) -> None:
        self._world = world
        self._topics = TopicRegistry(tool)
        self._configs = configs
        self._note = note
        self._random = Random(f"{world.seed} recreated topic")
        self._process = world.process("recreator")
        self._admin = make_admin(world, self._process)
        self._is_stopping = False
        self.producer = SimProducer(world, "recreated-producer", self._writable, History(), SEND_EVERY_S)
        self._done = ensureDeferred(self._go()).addErrback(world.failed)

    @property
    def exists(self) -> bool:
        return self._world.zookeeper.tree.exists(topic_path(RECREATED.topic)) is not None

    def _writable(self) -> list[TopicPartition]:
        return [RECREATED] if self.exists else []

    async def _go(self) -> None:
        while not self._is_stopping:
            try:
                if self.exists:
                    await sleep(self._process, self._random.uniform(*_LIVES_S))
                    self._note(f"delete {RECREATED.topic}")
                    await self._topics.request_deletion(RECREATED.topic)
                else:
                    self._note(f"create {RECREATED.topic}")
                    await self._admin.create_topic(RECREATED.topic, 1, _REPLICATION_FACTOR, self._configs)
            except (KafkaError, RegistryError) as error:
                self._note(f"{RECREATED.topic}: {error}")
            await sleep(self._process, _RETRIES_EVERY_S)
        await self._admin.close()

    def stop(self) -> None:
        """Stop soon, and leave the topic as it is."""
        self._is_stopping = True

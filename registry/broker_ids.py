"""Generates broker ids above the reserved range, from the versions of ``/brokers/seqid``.

Source: KafkaZkClient.generateBrokerSequenceId in Kafka 3.9; ``reserved.broker.max.id``.
"""

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.znodes.brokers import BROKER_SEQUENCE


async def generate_broker_id(client: RegistryClient, reserved_broker_max_id: int = 1000) -> int:
    """Generate a new unique id. The first one is ``reserved_broker_max_id`` + 1."""
    while True:
        try:
            return (await client.set(BROKER_SEQUENCE, b"")).version + reserved_broker_max_id
        except NoNode:
            await ensure_paths(client, [BROKER_SEQUENCE])

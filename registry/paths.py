"""The persistent parents that every broker creates at startup.

Source: ZkData.PersistentZkPaths and ConfigType in Kafka 3.9; seen on a 3.9.1 broker.
"""

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.pipeline import ensure_paths
from kafka_zk.registry.znodes import admin, brokers, config, consumers, isr, producer_ids, topics

PERSISTENT_PATHS = (
    consumers.CONSUMERS,
    brokers.BROKER_IDS,
    topics.TOPICS,
    config.CONFIG_CHANGES,
    admin.DELETE_TOPICS,
    brokers.BROKER_SEQUENCE,
    isr.ISR_CHANGES,
    producer_ids.PRODUCER_ID_BLOCK,
    isr.LOG_DIR_EVENTS,
    *(config.entity_type_path(entity_type) for entity_type in config.ENTITY_TYPES),
)


async def ensure_persistent_paths(client: RegistryClient) -> None:
    """Create PERSISTENT_PATHS that do not exist, in one pipelined round trip."""
    await ensure_paths(client, PERSISTENT_PATHS)

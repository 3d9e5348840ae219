"""Determines the ids of a starting broker and its cluster. Source: KafkaServer.getOrGenerateBrokerId@3.9."""

from random import Random

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.registry import broker_ids, cluster_id, paths
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.manager.meta_properties import read_meta_properties


async def identify(config: KafkaConfig, client: RegistryClient, random: Random) -> tuple[str, int]:
    """Find or generate the ids of the cluster and of this broker."""
    await paths.ensure_persistent_paths(client)
    cluster = await cluster_id.get_or_create(client, cluster_id.random_id(random))
    return cluster, await find_broker_id(config, client)


async def find_broker_id(config: KafkaConfig, client: RegistryClient) -> int:
    """The configured id, else the id in the log directories, else a new one from ZooKeeper.

    Raises: InconsistentLogDir; RegistryError.
    """
    stored = set()
    for directory in config.log_directories:
        try:
            meta = read_meta_properties(str(directory))
        except OSError:
            continue  # opening the logs reports the error
        if meta is not None and meta.broker_id is not None:
            stored.add(meta.broker_id)
    if len(stored) > 1:
        raise InconsistentLogDir(f"the log directories belong to different brokers: {sorted(stored)}")
    if config.broker_id >= 0:
        return config.broker_id
    if stored:
        return int(stored.pop())
    return await broker_ids.generate_broker_id(client, config.reserved_broker_max_id)

"""The finalized features of the cluster (``/feature``), written by a new controller.

Source: FeatureZNode and KafkaController.setupFeatureVersioning in Kafka 3.9; KIP-584.
"""

from kafka_zk.registry.client.client import Create, Operation, RegistryClient, SetData
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.znodes import feature as znodes
from kafka_zk.registry.znodes.feature import FEATURE, FinalizedFeatures


async def read_features(client: RegistryClient) -> tuple[FinalizedFeatures, int] | None:
    """The finalized features and the znode's version; None before the first write. Raises InvalidZnode."""
    try:
        data, stat = await client.get(FEATURE)
    except NoNode:
        return None
    return znodes.decode(data), stat.version


def write_operation(present: tuple[FinalizedFeatures, int] | None, wanted: FinalizedFeatures) -> Operation | None:
    """The write operation that the controller needs after ``read_features``; None if nothing changes."""
    if present is None:
        return Create(FEATURE, znodes.encode(wanted))
    features, version = present
    return None if features == wanted else SetData(FEATURE, znodes.encode(wanted), version)

"""Producer ids: each broker gets unique blocks of 1,000, through compare-and-set on one znode.

Source: ZkProducerIdManager in Kafka 3.9; KIP-98.
"""

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import BadVersion, TooManyProducerIds
from kafka_zk.registry.client.pipeline import get_or_create
from kafka_zk.registry.znodes import producer_ids as znodes
from kafka_zk.registry.znodes.producer_ids import BLOCK_SIZE, PRODUCER_ID_BLOCK, ProducerIdBlock

_GREATEST_ID = 2**63 - 1


async def allocate_block(client: RegistryClient, broker_id: int) -> range:
    """Allocate the next 1,000 producer ids to this broker.

    Raises: TooManyProducerIds; InvalidZnode; ConnectionLoss: call again; a block may then be lost.
    """
    while True:
        data, stat = await get_or_create(client, PRODUCER_ID_BLOCK, lambda: None)
        last = znodes.decode(data)
        first_id = 0 if last is None else last.last_id + 1
        if first_id + BLOCK_SIZE - 1 > _GREATEST_ID:
            raise TooManyProducerIds(f"{PRODUCER_ID_BLOCK}: the last block ends at {first_id - 1}")
        block = ProducerIdBlock(broker_id, first_id, first_id + BLOCK_SIZE - 1)
        try:
            await client.set(PRODUCER_ID_BLOCK, znodes.encode(block), stat.version)
        except BadVersion:
            continue  # another broker took this block
        return range(block.first_id, block.last_id + 1)

"""``/latest_producer_id_block`` (0.11): ``{"version":1,"broker":0,"block_start":"0","block_end":"999"}``, end included.

The bounds are longs and therefore strings. Empty data means that no block has been assigned.
"""

from typing import NamedTuple

from kafka_zk.registry.znodes import json_codec

PRODUCER_ID_BLOCK = "/latest_producer_id_block"
BLOCK_SIZE = 1000
PRODUCER_IDS = range(2**63)


class ProducerIdBlock(NamedTuple):
    """The producer ids ``first_id`` to ``last_id`` (inclusive) of one broker."""

    broker_id: int
    first_id: int
    last_id: int


def encode(block: ProducerIdBlock) -> bytes:
    return json_codec.encode(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first_id),
            "block_end": str(block.last_id),
        }
    )


def decode(data: bytes | None) -> ProducerIdBlock | None:
    """Decode the block; None if no block has been assigned. Raises InvalidZnode."""
    if not data:
        return None
    document = json_codec.decode_object(PRODUCER_ID_BLOCK, data)
    return ProducerIdBlock(
        json_codec.integer(PRODUCER_ID_BLOCK, document, "broker"),
        json_codec.integer(PRODUCER_ID_BLOCK, document, "block_start", within=PRODUCER_IDS),
        json_codec.integer(PRODUCER_ID_BLOCK, document, "block_end", within=PRODUCER_IDS),
    )

"""``/kafka-zk/unclean_starts/<broker id>-N``: broker N started without a clean shutdown before. Ours, not Kafka's.

The znode is persistent and sequential. The broker creates it in the multi that registers it; a controller of ours
deletes it when the broker is in no ISR that has other members. So the news outlives the broker's session and a
controller that dies, and a deletion never hits the znode of a later start:

    {"version":1,"timestamp":"1732672800000"}
"""

from kafka_zk.registry.znodes import json_codec

UNCLEAN_STARTS = "/kafka-zk/unclean_starts"


def path_prefix(broker_id: int) -> str:
    """What ZooKeeper appends the sequence number to."""
    return f"{UNCLEAN_STARTS}/{broker_id}-"


def broker_of(name: str) -> int | None:
    """The id of the broker that started; None if the name is not one of these znodes'."""
    broker_id, dash, _ = name.partition("-")
    return json_codec.number_of(broker_id, range(2**31)) if dash else None


def encode(timestamp_ms: int) -> bytes:
    return json_codec.encode({"version": 1, "timestamp": str(timestamp_ms)})

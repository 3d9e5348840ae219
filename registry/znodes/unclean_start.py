"""``/kafka-zk/unclean_starts/<broker id>-N``: a broker started after an unclean shutdown. Not in Kafka.

The broker creates this persistent sequential znode with its registration. A controller deletes it when no ISR with
other members contains the broker. So it outlives the session and the controller, and no deletion affects a later start:

    {"version":1,"timestamp":"1732672800000"}
"""

from kafka_zk.registry.znodes import json_codec

UNCLEAN_STARTS = "/kafka-zk/unclean_starts"


def path_prefix(broker_id: int) -> str:
    """The path to which ZooKeeper appends the sequence number."""
    return f"{UNCLEAN_STARTS}/{broker_id}-"


def broker_of(name: str) -> int | None:
    """The id of the broker that started; None for other names."""
    broker_id, dash, _ = name.partition("-")
    return json_codec.number_of(broker_id, range(2**31)) if dash else None


def encode(timestamp_ms: int) -> bytes:
    return json_codec.encode({"version": 1, "timestamp": str(timestamp_ms)})

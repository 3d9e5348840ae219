"""``/cluster/id``: ``{"version":"1","id":"<22 characters>"}`` (0.10.1). Unlike in other znodes, the version is a
string."""

from kafka_zk.registry.znodes import json_codec

CLUSTER = "/cluster"
CLUSTER_ID = "/cluster/id"


def encode(cluster_id: str) -> bytes:
    return json_codec.encode({"version": "1", "id": cluster_id})


def decode(data: bytes | None) -> str:
    """The cluster id. Raises InvalidZnode."""
    return json_codec.text(CLUSTER_ID, json_codec.decode_object(CLUSTER_ID, data), "id")

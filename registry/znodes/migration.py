"""``/migration`` (3.4): how far KRaft's controllers have written their metadata to ZooKeeper.

    {"version":0,"kraft_metadata_offset":131,"kraft_controller_id":3001,"kraft_metadata_epoch":1,
     "kraft_controller_epoch":1}

The controllers create it, with -1 in each field, as soon as they start. Source: MigrationZNode in ZkData.scala@3.9.
"""

from kafka_zk.base.integers import INT64
from kafka_zk.registry.znodes import json_codec

MIGRATION = "/migration"


def decode(data: bytes | None) -> int:
    """The offset of the last record of the metadata log that is in ZooKeeper; -1 before the copy.

    Raises InvalidZnode, also for empty data (KAFKA-19480).
    """
    document = json_codec.decode_object(MIGRATION, data)
    return json_codec.integer(MIGRATION, document, "kraft_metadata_offset", within=INT64)

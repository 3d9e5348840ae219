"""``/isr_change_notification/isr_change_N`` (0.9) and ``/log_dir_event_notification/log_dir_event_N`` (1.0).

The first lists partitions whose leader changed the ISR, the second names a broker that lost a log directory:
``{"version":1,"broker":1001,"event":1}``. The controller reads and deletes both.
"""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.znodes import admin, json_codec

ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "log_dir_event_"
LOG_DIR_FAILURE = 1


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    return admin.encode_partitions(partitions)


def decode_isr_change(path: str, data: bytes | None) -> set[TopicPartition]:
    """The partitions in a notification. Raises InvalidZnode."""
    return admin.decode_partitions(path, data)


def encode_log_dir_event(broker_id: int) -> bytes:
    return json_codec.encode({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The id of the broker that lost a log directory. Raises InvalidZnode."""
    return json_codec.integer(path, json_codec.decode_object(path, data), "broker")

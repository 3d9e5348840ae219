"""The record that a caller hands to ``send_all``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_zk.storage.records.record_batch import Header


class ProducerRecord(NamedTuple):
    """One record for ``send_all``; the partitioner chooses a missing ``partition``, ``timestamp_ms`` None is now."""

    value: Any
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[Header] = ()

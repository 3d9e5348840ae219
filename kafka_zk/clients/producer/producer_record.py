"""A record for ``send_all``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_zk.storage.records.record_batch import Header


class ProducerRecord(NamedTuple):
    """One record. ``partition``: if None, the partitioner chooses. ``timestamp_ms``: if None, the present time."""

    value: Any
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[Header] = ()

"""The reader's configuration: the keys of Kafka's consumer that do not concern groups, with Kafka's defaults.

Pure. Source: ConsumerConfig.java@3.9.
"""

from dataclasses import dataclass

from kafka_zk.clients.connection.config import ClientConfig, option

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(ClientConfig):
    """Kafka's consumer keys with ``_`` for ``.``; sizes in bytes, times in milliseconds.

    ``auto_offset_reset``: where to continue if an offset is out of range: ``earliest``, ``latest``, or ``none`` (raise
    an error). ``client_rack``: brokers may direct the reader to a replica in that rack. ``isolation_level``: with
    ``read_committed``, records of aborted transactions are skipped, and reading stops at the first open transaction
    (the last stable offset).
    """

    client_id: str = "kafka-zk-reader"
    auto_offset_reset: str = option("latest", choices=("earliest", "latest", "none"))
    check_crcs: bool = option(True)
    client_rack: str = option("")
    fetch_max_bytes: int = option(52_428_800, 1)
    fetch_max_wait_ms: int = option(500, 0)
    fetch_min_bytes: int = option(1, 0)
    isolation_level: str = option("read_uncommitted", choices=ISOLATION_LEVELS)
    max_partition_fetch_bytes: int = option(1_048_576, 1)
    max_poll_records: int = option(500, 1)

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

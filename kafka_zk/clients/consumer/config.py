"""The reader's configuration: Kafka's consumer keys and defaults, those that a reader without a group has.

Pure. Source: ConsumerConfig.java@3.9.
"""

from dataclasses import dataclass

from kafka_zk.clients.connection.config import ClientConfig, option

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True, kw_only=True)
class ReaderConfig(ClientConfig):
    """Kafka's consumer keys with ``.`` as ``_``; sizes in bytes, times in milliseconds.

    ``auto_offset_reset`` says where to continue when an offset is out of range: ``earliest``, ``latest``, or
    ``none``: raise. ``client_rack``: brokers may name a replica in that rack to read from. ``isolation_level``: with
    ``read_committed``, records of aborted transactions are not delivered, and reading ends where the first transaction
    begins that is still open (the last stable offset).

    Raises: ConfigError naming the key and what is allowed.
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
        """Whether only records of transactions that were committed count (and those without any)."""
        return self.isolation_level == "read_committed"

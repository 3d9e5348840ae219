"""Transaction settings from the broker's configuration."""

from dataclasses import dataclass

from kafka_zk.broker.config.kafka_config import KafkaConfig


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The keys ``transaction.*`` and ``transactional.id.*``. ``partition_count`` applies only until the topic exists.

    ``memory_max_bytes`` has no key. It limits all transactional ids, so that the broker stays below 300 MB.
    """

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    partition_count: int = 50
    load_buffer_bytes: int = 5_242_880
    memory_max_bytes: int = 96 * 1024 * 1024

    @classmethod
    def of(cls, config: KafkaConfig) -> "TransactionConfig":
        """The settings in ``server.properties``."""
        return cls(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            partition_count=config.transaction_state_log_num_partitions,
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        )

"""The producer's configuration. Pure. Source: ProducerConfig.java@3.9 (postProcessAndValidateIdempotenceConfigs)."""

from dataclasses import dataclass

from kafka_zk.clients.connection.config import ClientConfig, boolean, option
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.producer.partitioners import UserPartitioner
from kafka_zk.clients.serdes import Serializer, serde_named

_IDEMPOTENT_IN_FLIGHT_MAX = 5  # a broker remembers the last five batches of a producer in a partition
_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Kafka's producer keys with ``_`` for ``.``; sizes in bytes, times in milliseconds.

    ``partitioner``: ``roundrobin`` (default), ``sticky`` or a callable ``(topic, key, value, count) -> partition``.
    ``key_serializer``, ``value_serializer``: a name of ``clients.serdes.SERDES``, an object with ``serialize``, or None
    if the caller passes bytes.
    ``transactional_id``: makes the producer transactional (see ``Producer``). A later producer with this id fences it.
    ``transaction_timeout_ms``: the coordinator aborts transactions that take longer.
    ``enable_idempotence``: None means True unless acks, retries or in-flight requests forbid it, as in Kafka.
    """

    client_id: str = "kafka-zk-producer"
    acks: str | int = "all"
    batch_size: int = option(16_384, 0)
    buffer_memory: int = option(33_554_432, 0, 2**63 - 1)
    compression_type: str = option("none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    delivery_timeout_ms: int = option(120_000, 1)
    enable_idempotence: bool | str | None = None
    linger_ms: int = option(0, 0)
    max_block_ms: int = option(60_000, 0)
    max_in_flight_requests_per_connection: int = option(5, 1)
    max_request_size: int = option(1_048_576, 1)
    partitioner: str | UserPartitioner = option("roundrobin", choices=("roundrobin", "sticky"))  # noqa: RUF009
    retries: int = option(2_147_483_647, 0)
    transaction_timeout_ms: int = option(60_000, 1)
    transactional_id: str | None = None
    key_serializer: str | Serializer | None = None
    value_serializer: str | Serializer | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if str(self.acks) not in _ACKS:
            raise ConfigError(f"acks: {self.acks!r} is not one of all, -1, 1, 0")
        if self.transactional_id == "":
            raise ConfigError("transactional.id must not be empty")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError("delivery.timeout.ms must be at least linger.ms + request.timeout.ms")
        object.__setattr__(self, "enable_idempotence", self._decide_idempotence())
        for name in ("key_serializer", "value_serializer"):
            given = getattr(self, name)
            if isinstance(given, str):
                object.__setattr__(self, name, serde_named(name.replace("_", "."), given).serializer)

    def _decide_idempotence(self) -> bool:
        given = self.enable_idempotence
        wanted = None if given is None else boolean("enable.idempotence", given)
        refusal = None
        if self.required_acks != -1:
            refusal = "acks=all"
        elif self.retries == 0:
            refusal = "retries above 0"
        elif self.max_in_flight_requests_per_connection > _IDEMPOTENT_IN_FLIGHT_MAX:
            refusal = f"max.in.flight.requests.per.connection of at most {_IDEMPOTENT_IN_FLIGHT_MAX}"
        if wanted and refusal:
            raise ConfigError(f"enable.idempotence: true needs {refusal}")
        if self.transactional_id is not None and (refusal or wanted is False):
            raise ConfigError(f"transactional.id needs {refusal or 'enable.idempotence=true'}")
        # Java raises for too many requests in flight even if idempotence is only the default; here it is disabled.
        return refusal is None if wanted is None else wanted

    @property
    def serializers(self) -> tuple[Serializer | None, Serializer | None]:
        """The serializers of keys and of values; None: the caller passes bytes."""
        key, value = self.key_serializer, self.value_serializer
        assert not isinstance(key, str) and not isinstance(value, str), "names were looked up when this was made"
        return key, value

    @property
    def required_acks(self) -> int:
        """``acks`` as in the protocol: -1, 1 or 0."""
        return _ACKS[str(self.acks)]

    @property
    def idempotent(self) -> bool:
        return bool(self.enable_idempotence)

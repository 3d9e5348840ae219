"""Pure data of one partition; ``fetch_state`` has the rules."""

from collections import deque

from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.storage.records.record_batch import BatchHeader, Buffer


class PartitionFetch:
    """``position``: the next record for the user; None during a lookup. ``fetch_offset``: the next offset to request.
    Fetched records lie between the two.

    ``read_replica``: the broker to read from until ``read_replica_until_ms``; None: the leader (KIP-392).
    ``generation``: changes with every outside change of the position, so that responses to older requests are
    recognised.
    """

    __slots__ = (
        "batches",
        "buffered_bytes",
        "error",
        "fetch_offset",
        "generation",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "lookup",
        "not_before_ms",
        "paused",
        "position",
        "read_replica",
        "read_replica_until_ms",
        "records",
        "records_end",
        "records_taken_count",
    )

    def __init__(self, generation: int, position: int | None, lookup: int | None) -> None:
        self.high_watermark = -1
        self.last_stable_offset = -1  # -1 also comes from old brokers without transactions
        self.paused = False
        self.read_replica: int | None = None
        self.read_replica_until_ms = 0
        self.batches: deque[tuple[Buffer, int, BatchHeader, bool]] = deque()  # True: in an aborted transaction
        self.records: list[ConsumerRecord] | None = None  # the rest of a batch that max.poll.records divided
        self.records_taken_count = 0
        self.records_end = 0  # the offset after that batch
        self.restart(generation, position, lookup)

    def restart(self, generation: int, position: int | None, lookup: int | None) -> None:
        """``lookup``: a timestamp for ListOffsets, which returns the position."""
        self.generation = generation
        self.position, self.lookup = position, lookup
        self.fetch_offset = position if position is not None else 0
        self.batches.clear()
        self.buffered_bytes = 0
        self.records = None
        self.in_flight = False
        self.not_before_ms = 0
        self.error: KafkaError | None = None

    @property
    def has_something(self) -> bool:
        return bool(self.batches) or self.records is not None or self.error is not None

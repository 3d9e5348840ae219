"""Limits the producers that a broker's logs remember, because each takes memory in every partition to which it writes.

Clients choose producer ids; in Kafka, only the heap limits their number. At the limit, new producers are rejected until
others expire (``producer.id.expiration.ms``).
"""

from collections.abc import Callable

from kafka_zk.storage.files.errors import TooManyProducers

MAX_PRODUCERS = 250_000
"""Limit for all partitions together, enough for 5,000 clients that write to 50 partitions each. With five batches, a
producer takes 810 bytes, so all take 200 MB."""


class ProducerIdBudget:
    """Shared by all logs. ``count``: producers in all partitions, including deleted logs until ``recounted``."""

    def __init__(self, limit: int = MAX_PRODUCERS) -> None:
        self.limit = limit
        self.count = 0
        self.on_full: Callable[[int], None] = lambda limit: None
        """Called with the limit at the first rejection, and again only after the count has fallen below half the
        limit."""
        self._was_full = False

    def check_room(self, producer_id: int) -> None:
        """Check that another producer fits. Raises: TooManyProducers."""
        if self.count >= self.limit:
            if not self._was_full:
                self._was_full = True
                self.on_full(self.limit)
            raise TooManyProducers(
                f"producer {producer_id}: this broker already remembers {self.count} producers (limit {self.limit})."
                " It forgets a producer that has not written for producer.id.expiration.ms"
            )

    def recounted(self, count: int) -> None:
        self.count = count
        self._was_full = self._was_full and count >= self.limit // 2


UNBOUNDED = ProducerIdBudget(2**62)
"""A budget without a limit, for logs outside a broker."""

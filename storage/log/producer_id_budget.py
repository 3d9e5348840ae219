"""Limits how many producers a broker's logs remember, since each takes memory in every partition it writes to.

Clients choose producer ids, and Kafka's only limit is its heap. A producer is remembered for
``producer.id.expiration.ms`` after its last batch. At the limit, the first batch of a new producer is rejected.
"""

from collections.abc import Callable

from kafka_zk.storage.files.errors import TooManyProducers

MAX_PRODUCERS = 250_000
"""Limit for all partitions together: 5,000 clients that write to 50 partitions each. With five remembered batches, a
producer takes 810 bytes of resident memory: 200 MB in all, which keeps a broker under 300 MB."""


class ProducerIdBudget:
    """Shared by all logs. ``count``: producers in all partitions, including deleted logs until the next recount."""

    def __init__(self, limit: int = MAX_PRODUCERS) -> None:
        self.limit = limit
        self.count = 0
        self.on_full: Callable[[int], None] = lambda limit: None
        """Called with the limit when the first batch is rejected, and again after there was room."""
        self._was_full = False

    def check_room(self, producer_id: int) -> None:
        """Raises: TooManyProducers if no other producer can be remembered."""
        if self.count >= self.limit:
            if not self._was_full:
                self._was_full = True
                self.on_full(self.limit)
            raise TooManyProducers(
                f"producer {producer_id}: this broker remembers {self.count} producers, at most {self.limit} are"
                " allowed until some have not written for producer.id.expiration.ms"
            )

    def recounted(self, count: int) -> None:
        """Set the current number of producers."""
        self.count = count
        self._was_full = self._was_full and count >= self.limit // 2


UNBOUNDED = ProducerIdBudget(2**62)
"""No limit, for logs outside a broker."""

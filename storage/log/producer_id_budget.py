"""Limits how many producers a broker's logs remember, because each takes memory in every partition it writes to.

Clients choose producer ids, and Kafka's only limit is its heap. At the limit, the first batch of a new producer is
rejected until other producers expire (``producer.id.expiration.ms``).
"""

from collections.abc import Callable

from kafka_zk.storage.files.errors import TooManyProducers

MAX_PRODUCERS = 250_000
"""Limit for all partitions together, enough for 5,000 clients that write to 50 partitions each. A producer with five
remembered batches takes 810 bytes of resident memory, so the limit is 200 MB."""


class ProducerIdBudget:
    """Shared by all logs. ``count``: producers in all partitions; deleted logs count until ``recounted``."""

    def __init__(self, limit: int = MAX_PRODUCERS) -> None:
        self.limit = limit
        self.count = 0
        self.on_full: Callable[[int], None] = lambda limit: None
        """Called with the limit when the first batch is rejected. It is called again only after the count fell below
        half."""
        self._was_full = False

    def check_room(self, producer_id: int) -> None:
        """Raises: TooManyProducers if the limit is reached."""
        if self.count >= self.limit:
            if not self._was_full:
                self._was_full = True
                self.on_full(self.limit)
            raise TooManyProducers(
                f"producer {producer_id}: this broker already remembers {self.count} producers (limit {self.limit})."
                " It forgets a producer that has not written for producer.id.expiration.ms"
            )

    def recounted(self, count: int) -> None:
        """Set the current number of producers."""
        self.count = count
        self._was_full = self._was_full and count >= self.limit // 2


UNBOUNDED = ProducerIdBudget(2**62)
"""Without a limit, for logs outside a broker."""

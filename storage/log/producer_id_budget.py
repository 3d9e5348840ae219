"""How many producers the logs of a broker remember: each takes memory for every partition it writes to.

Clients choose producer ids, and Kafka has no bound but its heap. A producer that has written is remembered for
``producer.id.expiration.ms``. When the bound is reached, the first batch of a new producer is refused.
"""

from collections.abc import Callable

from kafka_zk.storage.files.errors import TooManyProducers

MAX_PRODUCERS = 250_000
"""Of all partitions together: 5,000 clients that write to 50 partitions each. With five remembered batches
a producer takes 810 bytes of resident memory: 200 MB in all, which keeps a broker under 300 MB."""


class ProducerIdBudget:
    """Shared by all logs. ``count``: the producers of all partitions; logs that are deleted count until the next
    recount."""

    def __init__(self, limit: int = MAX_PRODUCERS) -> None:
        self.limit = limit
        self.count = 0
        self.on_full: Callable[[int], None] = lambda limit: None
        """Called with the limit when the first batch is refused, and again after there was room."""
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
        """There are ``count`` now."""
        self.count = count
        self._was_full = self._was_full and count >= self.limit // 2


UNBOUNDED = ProducerIdBudget(2**62)
"""For logs outside of a broker."""

"""How much of the broker's time may go into checking that producers' records can be read: a tenth.

Reading the records in Python costs more than all else that happens to a batch. As long as producers leave the broker
time, every batch is checked. Under a load that would keep the reactor's thread busy without any checks, only as many
are checked as a tenth of the time allows, and throughput stays within a tenth of what it would be. The price and what
an unchecked batch can do are in docs/decisions/0006. Tests: tests/kafka_zk/replica/test_record_checks.py.
"""

from collections.abc import Callable

from kafka_zk.storage.log_config import LogConfig
from kafka_zk.storage.log_validator import check_at_once, contradicts_itself
from kafka_zk.storage.record_batch import BatchHeader

SHARE = 0.06
MAX_CREDIT_S = 0.25
"""After a pause, checks may take this long before the share counts: a burst of 2,000 batches of 16 KB."""

_MAX_COST_S = 0.02


class RecordChecks:
    """A token bucket of time. ``seconds``: a clock that is never set; ``unchecked_count``: batches appended without."""

    __slots__ = ("_credit_s", "_seconds", "_then_s", "unchecked_count")

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._credit_s = MAX_CREDIT_S
        self._then_s = seconds()
        self.unchecked_count = 0

    def check(self, batch: bytearray | memoryview, header: BatchHeader, config: LogConfig) -> int:
        """``log_validator.check_at_once`` if time is left for it. A header that contradicts itself is always checked.

        Returns: the largest timestamp of the batch. Raises: as ``check_at_once``.
        """
        now_s = self._seconds()
        credit_s = self._credit_s + (now_s - self._then_s) * SHARE
        if credit_s > MAX_CREDIT_S:
            credit_s = MAX_CREDIT_S
        if credit_s <= 0 and not contradicts_itself(header):
            self._credit_s, self._then_s = credit_s, now_s
            self.unchecked_count += 1
            return header.max_timestamp
        try:
            return check_at_once(batch, header, config)
        finally:
            self._then_s = then_s = self._seconds()
            self._credit_s = credit_s - (then_s - now_s)

    def spend(self, seconds: float) -> None:
        """Count a check of a big batch, which is not made here. The start of a helper process is not its fault."""
        self._credit_s -= min(seconds, _MAX_COST_S)

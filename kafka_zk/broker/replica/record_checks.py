"""Bounds the time that checks of producers' records take.

Reading the records in Python costs more than everything else that happens to a batch. Every batch is checked while
that takes at most SHARE of the time. Under more load only some batches are checked, and with the bookkeeping a
saturated broker loses at most a tenth of its throughput. Prices, and what an unchecked batch can do:
docs/decisions/0006.
Tests: tests/kafka_zk/broker/replica/test_record_checks.py.
"""

from collections.abc import Callable

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.log_validator import check_at_once, contradicts_itself
from kafka_zk.storage.records.record_batch import BatchHeader

SHARE = 0.06
MAX_CREDIT_S = 0.25
"""After a pause, checks may take this long before the share counts."""

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

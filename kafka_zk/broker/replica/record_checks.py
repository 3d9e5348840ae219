"""Limits the time for checks of producers' records.

Reading records in Python is the most expensive part of a Produce request. Every batch is checked while the checks take
at most SHARE of the time. Above that, only some batches are checked, so that a saturated broker loses at most a tenth
of its throughput. Batches that the native module checks within 1 ms are always checked. Costs, and the effects of an
unchecked batch: docs/decisions/0006.
"""

from collections.abc import Callable

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.log_validator import check_at_once, contradicts_itself
from kafka_zk.storage.records.record_batch import BatchHeader
from kafka_zk.storage.records.record_check import is_checked_quickly

SHARE = 0.06
MAX_CREDIT_S = 0.25
"""After a pause, checks may take this long before SHARE limits them."""

_MAX_COST_S = 0.02


class RecordChecks:
    """A token bucket of time. ``seconds``: the monotonic clock. ``unchecked_count``: number of batches that were not
    checked."""

    __slots__ = ("_credit_s", "_seconds", "_then_s", "unchecked_count")

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._credit_s = MAX_CREDIT_S
        self._then_s = seconds()
        self.unchecked_count = 0

    def check(self, batch: bytearray | memoryview, header: BatchHeader, config: LogConfig) -> int:
        """Call ``log_validator.check_at_once`` if the native module checks the batch quickly, if there is credit, or if
        the header contradicts itself.

        Returns the largest timestamp; for an unchecked batch, the header's. Raises: like ``check_at_once``.
        """
        if is_checked_quickly(header):
            return check_at_once(batch, header, config)
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
        """Charge the check of a large batch in a helper, without the time to start the helper."""
        self._credit_s -= min(seconds, _MAX_COST_S)

"""Transactions that limit the last stable offset: open, or with an uncommitted marker.

Source: ProducerStateManager.firstUnstableOffset@3.9. Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Mapping

from kafka_zk.storage.log.producer_snapshot import NO_OFFSET


class UnstableTransactions:
    """``unstable``: first offset -> marker's offset (NO_OFFSET while open), ascending.

    Usually empty: check that before calling a method.
    """

    __slots__ = ("_ended", "_open", "unstable")

    def __init__(self, unstable: Mapping[int, int] | None = None) -> None:
        self.unstable = dict(unstable or {})
        self._open = {first: None for first, end in self.unstable.items() if end == NO_OFFSET}
        # The inverse for ended transactions: marker offset -> first offset, ascending.
        self._ended = dict(sorted((end, first) for first, end in self.unstable.items() if end != NO_OFFSET))

    def first_offset(self, high_watermark: int) -> int | None:
        """The start of the oldest unstable transaction; None if there is none.

        Drops those that ended below ``high_watermark``, which must not decrease between calls.
        """
        ended = self._ended
        while ended:
            marker_offset = next(iter(ended))
            if marker_offset >= high_watermark:
                break
            del self.unstable[ended.pop(marker_offset)]
        return next(iter(self.unstable), None)

    def begin(self, first_offset: int) -> None:
        self.unstable[first_offset] = NO_OFFSET
        self._open[first_offset] = None

    def end(self, first_offset: int, marker_offset: int) -> None:
        self.unstable[first_offset] = marker_offset
        self._ended[marker_offset] = first_offset
        del self._open[first_offset]

    def oldest_open(self, log_end_offset: int) -> int:
        """The start of the oldest open transaction, else ``log_end_offset``: the last stable offset if all records are
        committed."""
        return next(iter(self._open), log_end_offset)

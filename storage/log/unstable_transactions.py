"""The transactions that keep a log's last stable offset back: they are open, or their end is not committed.

Source: ProducerStateManager.firstUnstableOffset@3.9. Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Mapping

from kafka_zk.storage.log.producer_snapshot import NO_OFFSET


class UnstableTransactions:
    """``unstable`` has the first offset of each and its marker's, NO_OFFSET while it is open; in order of the first.

    It is empty in nearly all logs: look there before you call a method.
    """

    __slots__ = ("_ended", "_open", "unstable")

    def __init__(self, unstable: Mapping[int, int] | None = None) -> None:
        self.unstable = dict(unstable or {})
        self._open = {first: None for first, end in self.unstable.items() if end == NO_OFFSET}
        # The others, the other way round, in the markers' order.
        self._ended = dict(sorted((end, first) for first, end in self.unstable.items() if end != NO_OFFSET))

    def first_offset(self, high_watermark: int) -> int | None:
        """Where the oldest one begins; None without one.

        Transactions that ended before ``high_watermark`` are forgotten, since it does not go back.
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
        """Where the oldest open one begins, ``log_end_offset`` without one: the last stable offset once all is
        committed."""
        return next(iter(self._open), log_end_offset)

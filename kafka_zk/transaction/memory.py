"""A bound for what the transactional ids of a broker hold: clients choose them, and nobody counts them."""

from twisted.logger import Logger

from kafka_zk.transaction.transaction import Transaction

_log = Logger()

ID_BYTES = 450  # of memory, measured, beside the id
PARTITION_BYTES = 250  # likewise, of a transaction


def held_bytes(transaction: Transaction) -> int:
    """What a transactional id holds, with the partitions of its transaction."""
    pending = transaction.pending
    partition_count = len(transaction.metadata.tps) + (0 if pending is None else len(pending.tps))
    return ID_BYTES + len(transaction.transactional_id) + partition_count * PARTITION_BYTES


class TransactionsMemory:
    """See the module's docstring. ``used_bytes`` may be above ``limit_bytes`` after ids were loaded."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._is_full = False

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much more may be held."""
        has_room = self.used_bytes + size_bytes <= self.limit_bytes
        if not has_room and not self._is_full:
            self._is_full = True
            _log.error(
                "transactional ids hold {used} bytes, at most {limit} are allowed: new ones are refused",
                used=self.used_bytes, limit=self.limit_bytes,
            )  # fmt: skip
        return has_room

    def changed(self, by_bytes: int) -> None:
        """Transactional ids hold so much more, or less."""
        self.used_bytes += by_bytes
        if self._is_full and self.used_bytes < self.limit_bytes // 2:
            self._is_full = False
            _log.info("there is room for transactional ids again")

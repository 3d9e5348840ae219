"""What a transactional id of a broker holds: clients choose ids, so they must be counted."""

from kafka_zk.broker.transaction.transaction import Transaction

ID_BYTES = 450  # of memory, measured, beside the id
PARTITION_BYTES = 250  # likewise, of a transaction


def held_bytes(transaction: Transaction) -> int:
    """What a transactional id holds, with the partitions of its transaction."""
    pending = transaction.pending
    partition_count = len(transaction.metadata.tps) + (0 if pending is None else len(pending.tps))
    return ID_BYTES + len(transaction.transactional_id) + partition_count * PARTITION_BYTES

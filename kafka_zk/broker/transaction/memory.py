"""Memory of transactional ids, which clients choose."""

from kafka_zk.broker.transaction.transaction import Transaction

ID_BYTES = 450  # measured memory of an id, without its characters
PARTITION_BYTES = 250  # measured memory of a partition in a transaction


def held_bytes(transaction: Transaction) -> int:
    """Memory of a transactional id and the partitions of its transaction."""
    pending = transaction.pending
    partition_count = len(transaction.metadata.tps) + (0 if pending is None else len(pending.tps))
    return ID_BYTES + len(transaction.transactional_id) + partition_count * PARTITION_BYTES

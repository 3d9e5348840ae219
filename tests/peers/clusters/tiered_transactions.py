"""Committed and aborted transactions in a tiered topic, and what librdkafka reads from it with read_committed."""

from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import ReplicatedCluster

TRANSACTED = "transacted"
PARTITIONS = 2
_TRANSACTIONS = 30
_RECORDS = 20
_CONFIG = {"remote.storage.enable": "true", "segment.bytes": "15000", "local.retention.bytes": "15000"}
_WAIT_S = 60

Values = dict[int, list[bytes]]
"""Values in order, by partition."""


def write_transactions(cluster: ReplicatedCluster) -> Values:
    """Write transactions to both partitions, and abort every second one. Returns the committed values, once most of
    them are only in remote storage."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    [created] = admin.create_topics(
        [NewTopic(TRANSACTED, PARTITIONS, len(cluster.brokers), config=_CONFIG)]
    ).values()
    created.result(_WAIT_S)
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap, "log_level": 0, "transactional.id": TRANSACTED, "batch.size": 5_000,
    })  # fmt: skip
    producer.init_transactions(_WAIT_S)
    committed: Values = defaultdict(list)
    for transaction in range(_TRANSACTIONS):
        producer.begin_transaction()
        values = [b"%d-%d " % (transaction, number) + b"x" * 200 for number in range(_RECORDS)]
        for partition in range(PARTITIONS):
            for value in values:
                producer.produce(TRANSACTED, value, partition=partition)
        if transaction % 2:
            producer.flush(_WAIT_S)  # otherwise, the records would not be sent
            producer.abort_transaction(_WAIT_S)
        else:
            producer.commit_transaction(_WAIT_S)
            for partition in range(PARTITIONS):
                committed[partition] += values
    wait_until(lambda: _is_mostly_remote(cluster), _WAIT_S, "transactions that are only in remote storage")
    return committed


def _is_mostly_remote(cluster: ReplicatedCluster) -> bool:
    return all(
        min(int(file.stem) for file in (broker.log_dir / f"{TRANSACTED}-{partition}").glob("*.log")) > 2 * _RECORDS
        for broker in cluster.brokers
        for partition in range(PARTITIONS)
    )


def read_committed(cluster: ReplicatedCluster) -> Values:
    """All values that read_committed returns, from the first offset to the end."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap, "log_level": 0, "group.id": "none", "enable.auto.commit": False,
        "auto.offset.reset": "error", "isolation.level": "read_committed", "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(TRANSACTED, partition, 0) for partition in range(PARTITIONS)])
    read: Values = defaultdict(list)
    ended: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(500, 0.2):
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                read[partition].append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
        return len(ended) == PARTITIONS

    try:
        wait_until(is_read, _WAIT_S, f"all of {TRANSACTED}")
    finally:
        consumer.close()
    return read

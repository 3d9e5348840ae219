"""Consume, transform, produce, each record exactly once: python examples/exactly_once.py [BOOTSTRAP] [SOURCE] [TARGET]
[GROUP] [NAME] [SECONDS].

A transaction commits results and offsets together: if this program dies, its last transaction has no effect. Members
may join and leave the group. If a member was considered dead and wakes up, its commit is refused, because its
generation has ended. NAME must be unique among the members and stay the same across restarts: a new program with that
name aborts the old one's open transaction. Readers of TARGET set isolation.level=read_committed.
"""

import sys

from kafka_zk import BlockingConsumer, BlockingProducer, ConsumerRecord, TopicPartition, TransactionAbortable


def next_offsets(records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    """The offsets to consume after these records."""
    return {record.tp: record.offset + 1 for record in records}


def member(bootstrap: str, topic: str, group: str, *, max_poll_records: int = 500) -> BlockingConsumer:
    """A member that does not commit its offsets automatically."""
    return BlockingConsumer(
        [topic], bootstrap_servers=bootstrap, group_id=group, max_poll_records=max_poll_records,
        auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed",
        session_timeout_ms=6_000, heartbeat_interval_ms=500,
    )  # fmt: skip


def work(producer: BlockingProducer, consumer: BlockingConsumer, target: str, idle_ms: int) -> None:
    """Work until no record arrives for ``idle_ms``. Raises TransactionAbortable if a transaction was aborted."""
    while records := consumer.poll(idle_ms):
        generation = consumer.group_metadata()  # before the work: if the work takes too long, the commit is refused
        with producer.transaction():
            for record in records:
                producer.send(target, record.value.upper(), key=record.key)
            producer.send_offsets(next_offsets(records), generation)


def main(bootstrap: str = "127.0.0.1:9092", source: str = "greetings", target: str = "loud-greetings",
         group: str = "shouting", name: str = "anna", seconds: str = "5") -> None:  # fmt: skip
    with BlockingProducer(bootstrap_servers=bootstrap, transactional_id=f"{group}-{name}") as producer:
        producer.init_transactions()
        while True:
            try:
                with member(bootstrap, source, group) as consumer:
                    return work(producer, consumer, target, int(float(seconds) * 1000))
            except TransactionAbortable as error:
                # The transaction has no effect. After rejoining, the member begins at the committed offsets.
                print(f"again: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Consume, transform, produce, each record exactly once: python examples/exactly_once.py [BOOTSTRAP] [SOURCE] [TARGET]
[GROUP] [NAME] [SECONDS].

Results and offsets are committed in one transaction: if this program dies, neither of the last one counts. Members of
the group may come and go: a member that was taken for dead and wakes up is refused by the group (its generation is
over). NAME must differ between the members, and stay the same when one of them is started again: a new program of that
name ends what the old one left open. Readers of TARGET set isolation.level=read_committed.
"""

import sys

from kafka_zk import (
    BlockingConsumer,
    BlockingProducer,
    ConsumerRecord,
    TopicPartition,
    TransactionAbortable,
)


def next_offsets(records: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    """What is to be consumed after these."""
    return {record.tp: record.offset + 1 for record in records}


def member(bootstrap: str, topic: str, group: str, *, max_poll_records: int = 500) -> BlockingConsumer:
    """Of a group that commits its offsets itself."""
    return BlockingConsumer(
        [topic],
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=max_poll_records,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )


def work(producer: BlockingProducer, consumer: BlockingConsumer, target: str, idle_ms: int) -> None:
    """Until no record comes for so long. Raises: TransactionAbortable when a transaction was aborted."""
    while records := consumer.poll(idle_ms):
        generation = consumer.group_metadata()  # before the work: if that takes too long, it does not count
        with producer.transaction():
            for record in records:
                producer.send(target, record.value.upper(), key=record.key)
            producer.send_offsets(next_offsets(records), generation)


def main(
    bootstrap: str = "127.0.0.1:9092",
    source: str = "greetings",
    target: str = "loud-greetings",
    group: str = "shouting",
    name: str = "anna",
    seconds: str = "5",
) -> None:
    with BlockingProducer(bootstrap_servers=bootstrap, transactional_id=f"{group}-{name}") as producer:
        producer.init_transactions()
        done = False
        while not done:
            try:
                with member(bootstrap, source, group) as consumer:
                    work(producer, consumer, target, int(float(seconds) * 1000))
                    done = True
            except TransactionAbortable as error:
                # Nothing of it counts. Whoever joins anew begins at what is committed.
                print(f"again: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The fate of records when a program dies at the worst moment: python examples/delivery.py MODE [BOOTSTRAP]
[SOURCE] [TARGET] [GROUP] [SECONDS] [die].

MODE is at-most-once, at-least-once or exactly-once. The work copies records in capital letters, ten at a time. With
`die` the program kills itself in the middle of its second ten; run it again without `die`, and count.
"""

import os
import sys

from exactly_once import member, next_offsets

from kafka_zk import BlockingConsumer, BlockingProducer, ConsumerRecord


class Copying:
    """Copies records, and dies in the middle of portion ``deadly``."""

    def __init__(self, producer: BlockingProducer, consumer: BlockingConsumer, target: str, deadly: int) -> None:
        self._producer, self._consumer, self._target = producer, consumer, target
        self._portions_left = deadly

    def at_most_once(self, records: list[ConsumerRecord]) -> None:
        """Commit the offsets first: records that are not copied then are lost."""
        self._consumer.commit()
        self._worst_moment()
        self._copy(records)

    def at_least_once(self, records: list[ConsumerRecord]) -> None:
        """Copy first: the copied records are delivered again."""
        self._copy(records)
        self._worst_moment()
        self._consumer.commit()

    def exactly_once(self, records: list[ConsumerRecord]) -> None:
        """Commit records and offsets together."""
        generation = self._consumer.group_metadata()
        with self._producer.transaction():
            self._copy(records)
            self._producer.send_offsets(next_offsets(records), generation)
            self._worst_moment()

    def _copy(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self._producer.send(self._target, record.value.upper(), key=record.key)
        self._producer.flush()

    def _worst_moment(self) -> None:
        self._portions_left -= 1
        if self._portions_left == 0:
            os._exit(1)  # like a kill or a power failure: no clean-up


def main(
    mode: str,
    bootstrap: str = "127.0.0.1:9092",
    source: str = "greetings",
    target: str = "loud-greetings",
    group: str = "copying",
    seconds: str = "5",
    die: str = "",
) -> None:
    transactional_id = f"{group}-1" if mode == "exactly-once" else None
    with (
        BlockingProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
        member(bootstrap, source, group, max_poll_records=10) as consumer,
    ):
        if transactional_id is not None:
            producer.init_transactions()
        copying = Copying(producer, consumer, target, 2 if die else -1)
        work = {
            "at-most-once": copying.at_most_once,
            "at-least-once": copying.at_least_once,
            "exactly-once": copying.exactly_once,
        }[mode]
        while records := consumer.poll(int(float(seconds) * 1000)):
            work(records)


if __name__ == "__main__":
    main(*sys.argv[1:])

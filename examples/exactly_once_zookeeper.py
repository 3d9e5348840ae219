"""Process records exactly once in a group that coordinates through ZooKeeper: python examples/exactly_once_zookeeper.py
[ZOOKEEPER] [BOOTSTRAP] [SOURCE] [TARGET] [GROUP] [SECONDS].

A transaction cannot include ZooKeeper. Therefore the authoritative offsets are committed in Kafka, in the same
transaction as the results (fenced_producers.py). The offsets in ZooKeeper are a copy for tools, written afterwards.
"""

import sys
from itertools import groupby
from operator import attrgetter

from fenced_producers import FencedProducers

from kafka_zk import BlockingZookeeperConsumer, ConsumerRecord, KafkaError, ProducerFenced, TransactionAbortable


def work(producers: FencedProducers, target: str, records: list[ConsumerRecord]) -> int:
    """Copy records of one partition in capital letters. Returns the next offset. Raises ProducerFenced."""
    tp, first, following = records[0].tp, records[0].offset, records[-1].offset + 1
    producer = producers.get(tp)
    if producer is None:
        return producers.take_over(tp, first)
    try:
        with producer.transaction():
            for record in records:
                producer.send(target, record.value.upper(), key=record.key)
            producer.send_offsets({tp: following}, producers.group)
    except TransactionAbortable as error:
        print(f"again: {error}", file=sys.stderr)
        return first
    producers.reached[tp] = following
    return following


def main(zookeeper: str = "127.0.0.1:2181", bootstrap: str = "127.0.0.1:9092", source: str = "greetings",
         target: str = "loud-greetings", group: str = "shouting-in-zookeeper", seconds: str = "5") -> None:  # fmt: skip
    with FencedProducers(bootstrap, group) as producers, BlockingZookeeperConsumer(
        [source], group_id=group, zookeeper_connect=zookeeper, listener=producers,
        auto_offset_reset="smallest", auto_commit_enable=False, isolation_level="read_committed",
    ) as consumer:  # fmt: skip
        while polled := consumer.poll(int(float(seconds) * 1000)):
            for tp, some in groupby(sorted(polled, key=attrgetter("tp")), attrgetter("tp")):
                records = list(some)
                try:
                    offset = work(producers, target, records)
                except ProducerFenced:
                    producers.give_up(tp)  # another member has claimed it, even if this one has not noticed yet
                    continue
                try:
                    if offset == records[-1].offset + 1:
                        consumer.commit({tp: offset})
                    else:
                        consumer.seek(tp, offset)
                except KafkaError as error:
                    print(f"no longer the owner: {error}", file=sys.stderr)
                    producers.claimed.add(tp)


if __name__ == "__main__":
    main(*sys.argv[1:])

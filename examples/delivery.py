"""What happens to records if a program dies at the worst moment: python examples/delivery.py MODE [BOOTSTRAP] [SOURCE]
[TARGET] [GROUP] [SECONDS] [die].

MODE is at-most-once, at-least-once or exactly-once. The program copies records in capital letters, ten at a time. With
`die` it kills itself in the middle of the second ten. Run it again without `die`, and count the copies.
"""

import itertools
import os
import sys

from exactly_once import member, next_offsets

from kafka_zk import BlockingProducer, ConsumerRecord


def copy(producer: BlockingProducer, target: str, records: list[ConsumerRecord]) -> None:
    for record in records:
        producer.send(target, record.value.upper(), key=record.key)
    producer.flush()


def die_at(portion: int, deadly: int) -> None:
    if portion == deadly:
        os._exit(1)  # like a kill or a power failure: no clean-up


def main(mode: str, bootstrap: str = "127.0.0.1:9092", source: str = "greetings", target: str = "loud-greetings",
         group: str = "copying", seconds: str = "5", die: str = "") -> None:  # fmt: skip
    deadly = 2 if die else 0
    transactional_id = f"{group}-1" if mode == "exactly-once" else None
    with (
        BlockingProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
        member(bootstrap, source, group, max_poll_records=10) as consumer,
    ):
        if transactional_id is not None:
            producer.init_transactions()
        for portion in itertools.count(1):
            records = consumer.poll(int(float(seconds) * 1000))
            if not records:
                return
            match mode:
                case "at-most-once":  # if the program dies before the work, records are lost
                    consumer.commit()
                    die_at(portion, deadly)
                    copy(producer, target, records)
                case "at-least-once":  # if the program dies before the commit, records are delivered again
                    copy(producer, target, records)
                    die_at(portion, deadly)
                    consumer.commit()
                case "exactly-once":  # records and offsets are committed together
                    generation = consumer.group_metadata()
                    with producer.transaction():
                        copy(producer, target, records)
                        producer.send_offsets(next_offsets(records), generation)
                        die_at(portion, deadly)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Process every record at most once: python examples/at_most_once.py [ZOOKEEPER] [TOPIC] [GROUP] [SECONDS].

Offsets are committed before the work. If this program dies before it has done the work on some records, that work is
lost, but no record is processed twice. If a commit is refused, another member owns the partition: skip the work.
"""

import sys

from kafka_zk import BlockingZookeeperConsumer, CommitRefused


def main(
    zookeeper: str = "127.0.0.1:2181", topic: str = "greetings", group: str = "not-twice", seconds: str = "5"
) -> None:
    with BlockingZookeeperConsumer(
        [topic],
        group_id=group,
        zookeeper_connect=zookeeper,
        auto_offset_reset="smallest",
        auto_commit_enable=False,
    ) as consumer:
        while records := consumer.poll(int(float(seconds) * 1000)):
            lost: set[tuple[str, int]] = set()
            try:
                consumer.commit()
            except CommitRefused as refused:
                lost = set(refused.reasons)
            for record in records:
                if record.tp not in lost:
                    print(f"work on {record.tp} offset {record.offset}: {record.value!r}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

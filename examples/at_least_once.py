"""Process every record at least once: python examples/at_least_once.py [ZOOKEEPER] [TOPIC] [GROUP] [SECONDS].

Offsets are committed after the work. If this program dies before a commit, another member receives the records since
the last commit again, so the work must tolerate repetition.
"""

import sys

from kafka_zk import BlockingZookeeperConsumer, CommitRefused


def main(
    zookeeper: str = "127.0.0.1:2181", topic: str = "greetings", group: str = "once-more", seconds: str = "5"
) -> None:
    with BlockingZookeeperConsumer(
        [topic],
        group_id=group,
        zookeeper_connect=zookeeper,
        auto_offset_reset="smallest",
        auto_commit_enable=False,
    ) as consumer:
        while records := consumer.poll(int(float(seconds) * 1000)):
            for record in records:
                print(f"work on {record.tp} offset {record.offset}: {record.value!r}", flush=True)
            try:
                consumer.commit()
            except CommitRefused as refused:
                # Another member owns the partition now and receives these records, too.
                print(refused, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])

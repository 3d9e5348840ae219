"""Write to a topic and read it back, in a program without Twisted: python examples/produce_and_read.py [HOST:PORT]
[TOPIC].
"""

import sys

from kafka_zk import BlockingAdmin, BlockingProducer, BlockingReader, Timestamp, TopicPartition


def main(bootstrap: str = "127.0.0.1:9092", topic: str = "examples.greetings") -> None:
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        if topic not in admin.list_topics():
            admin.create_topic(topic, partitions=2)

    # Records with the same key go to the same partition, so they stay in order. Leaving the block delivers all records.
    with BlockingProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        futures = [
            producer.send(topic, f"hello {number}".encode(), key=b"en", headers=[("example", b"yes")])
            for number in range(10)
        ]
    first = futures[0].value()
    print(f"written to {first.topic}-{first.partition} from offset {first.offset}")

    with BlockingReader(bootstrap_servers=bootstrap) as reader:
        home = TopicPartition(topic, first.partition)
        reader.assign({home: first.offset})
        for records in reader.batches(until=reader.end_offsets([home])):
            for record in records:
                print(f"offset {record.offset}: {record.value!r} {list(record.headers)}")

        reader.assign({home: Timestamp(first.timestamp_ms)})
        again = reader.poll(10_000)[0]
        print(f"the first record since {first.timestamp_ms} ms is at offset {again.offset}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A service that does not depend on kafka-zk: it writes orders to Kafka and computes totals."""

import json
from collections import Counter

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


class Orders:
    """Orders in one topic of any Kafka."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap.split(",")
        self._topic = topic
        self._producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all")

    def place(self, article: str, count: int) -> None:
        """Write an order and wait until it is acknowledged."""
        order = json.dumps({"article": article, "count": count}).encode()
        self._producer.send(self._topic, order, key=article.encode()).get(timeout=30)

    def totals(self) -> Counter[str]:
        """The ordered count of each article, from the first order to the current last one."""
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, enable_auto_commit=False)
        partitions = [TopicPartition(self._topic, number) for number in consumer.partitions_for_topic(self._topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        totals: Counter[str] = Counter()
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    order = json.loads(record.value)
                    totals[order["article"]] += order["count"]
        consumer.close()
        return totals

    def close(self) -> None:
        self._producer.close()

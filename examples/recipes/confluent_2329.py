"""confluent-kafka-python#2329: close() leaves a transaction open: python confluent_2329.py BOOTSTRAP TOPIC STYLE.

A program that fails inside of a transaction and closes its producer (STYLE ``close``) leaves the transaction open, and
``read_committed`` consumers wait for its timeout. The application's fix is to abort first (STYLE ``abort``).
"""

import sys

from confluent_kafka import Producer


def main(bootstrap: str, topic: str, style: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"half of the work")
    producer.flush()
    if style == "abort":
        producer.abort_transaction()
    producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

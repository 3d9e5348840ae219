"""librdkafka#4953: an idempotent producer writes records twice: python librdkafka_4953.py BOOTSTRAP TOPIC IN_FLIGHT.

A leader that loses its partition may have appended a record although it responds with NOT_LEADER_OR_FOLLOWER. If a
later request is then rejected with OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka continues with a new producer epoch, and
the leader does not recognise the retry of that record. This needs several requests in flight (IN_FLIGHT ``5``, the
default). The application's fix is one request at a time (IN_FLIGHT ``1``).
"""

import sys

from confluent_kafka import Producer

RECORDS = (b"a", b"b", b"c")


def main(bootstrap: str, topic: str, in_flight: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": int(in_flight),
            "batch.num.messages": 1,  # one record in each request
            "retry.backoff.ms": 1000,  # no retry begins before all requests have their response
            "retry.backoff.max.ms": 1000,
        }
    )
    for value in RECORDS:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, record: print(record.value(), error))
    producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

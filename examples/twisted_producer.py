"""Write from a Twisted program: python examples/twisted_producer.py [HOST:PORT] [TOPIC]."""

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from kafka_zk import Producer


async def produce(reactor: Any, bootstrap: str, topic: str) -> None:
    producer = Producer(reactor, bootstrap_servers=bootstrap, compression_type="lz4")
    try:
        # ``send`` does not wait: all three records are in flight before the first is acknowledged.
        sent = [producer.send(topic, text.encode()) for text in ("one", "two", "three")]
        for delivered in sent:
            written = await delivered
            print(f"{written.topic}-{written.partition} offset {written.offset}")
    finally:
        await producer.close()


def main(reactor: Any, bootstrap: str = "127.0.0.1:9092", topic: str = "examples.numbers") -> Deferred[None]:
    return Deferred.fromCoroutine(produce(reactor, bootstrap, topic))


if __name__ == "__main__":
    react(main, sys.argv[1:])

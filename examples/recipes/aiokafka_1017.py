"""aiokafka#1017: an idempotent producer stays out of order for good: python aiokafka_1017.py BOOTSTRAP TOPIC STYLE.

After OUT_OF_ORDER_SEQUENCE_NUMBER, the leader rejects every later batch of aiokafka's producer. An application that
tries again with the same producer (STYLE ``keep``) fails until it is restarted. The fix is a new producer (STYLE
``replace``). The application sends one record for each line of the input.
"""

import asyncio
import sys

from aiokafka import AIOKafkaProducer
from aiokafka.errors import OutOfOrderSequenceNumber


async def started(bootstrap: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    await producer.start()
    return producer


async def main(bootstrap: str, topic: str, style: str) -> None:
    producer = await started(bootstrap)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            await producer.send_and_wait(topic, line.encode())
            print("sent", flush=True)
        except OutOfOrderSequenceNumber:
            print("refused", flush=True)
            if style == "replace":
                await producer.stop()
                producer = await started(bootstrap)
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

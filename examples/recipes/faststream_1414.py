"""faststream#1414: a subscriber stops for good after a commit that failed: python faststream_1414.py BOOTSTRAP TOPIC.

With ``auto_commit=False``, FastStream commits after each record. If a rebalance lets that commit fail, the task that
reads the topic ends, and the application continues to run without it. FastStream 0.5.4 reports the error and continues.
The application prints each record.
"""

import asyncio
import sys

from faststream import FastStream
from faststream.kafka import KafkaBroker


def main(bootstrap: str, topic: str) -> None:
    broker = KafkaBroker(bootstrap.split(","), logger=None)
    app = FastStream(broker, logger=None)

    subscriber = broker.subscriber(topic, group_id=topic, auto_commit=False, auto_offset_reset="earliest")

    @subscriber
    async def handle(value: str) -> None:
        print(value, flush=True)

    @app.after_startup
    async def report_the_end() -> None:
        subscriber.task.add_done_callback(lambda _: print("stopped", flush=True))

    asyncio.run(app.run())


if __name__ == "__main__":
    main(*sys.argv[1:])

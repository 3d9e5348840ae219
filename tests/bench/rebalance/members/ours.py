"""Members of our groups: ``ZookeeperConsumer``, any number of them on one reactor.

Arguments: topic, folder for the records (empty: no records are written), and a JSON object of the configuration. With
``"static": true``, a member's name is its instance id.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import blockingCallFromThread

from kafka_zk.clients.connection.errors import ClientClosed
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
from tests.bench.rebalance.members.protocol import RecordFile, serve

reactor: Any = installed_reactor


class _Members:
    """All methods run on the reactor's thread."""

    def __init__(self, topic: str, folder: str, config: dict[str, Any]) -> None:
        self._topic = topic
        self._folder = Path(folder) if folder else None
        self._name_key = "group_instance_id" if config.pop("static", False) else "consumer_id"
        self._config = config
        self._consumers: dict[str, ZookeeperConsumer] = {}

    async def join(self, name: str) -> None:
        consumer = ZookeeperConsumer(reactor, **(self._config | {self._name_key: name}))
        consumer.subscribe([self._topic])
        self._consumers[name] = consumer
        await consumer.start()
        if self._folder is not None:
            Deferred.fromCoroutine(_record(consumer, RecordFile(self._folder, name)))

    async def leave(self, name: str) -> None:
        await self._consumers.pop(name).close()


async def _record(consumer: ZookeeperConsumer, file: RecordFile) -> None:
    try:
        async for records in consumer.batches():
            file.write((record.partition, record.offset) for record in records)
    except ClientClosed:
        return


def main(topic: str, folder: str, config_json: str) -> None:
    members = _Members(topic, folder, json.loads(config_json))

    def all_at_once(coroutines: Sequence[Coroutine[Any, Any, None]]) -> Deferred[Any]:
        return gatherResults([Deferred.fromCoroutine(each) for each in coroutines], consumeErrors=True)

    def join(names: Sequence[str]) -> None:
        blockingCallFromThread(reactor, lambda: all_at_once([members.join(name) for name in names]))

    def leave(names: Sequence[str]) -> None:
        blockingCallFromThread(reactor, lambda: all_at_once([members.leave(name) for name in names]))

    def obey() -> None:
        serve(join, leave)
        reactor.callFromThread(reactor.stop)

    reactor.callInThread(obey)
    reactor.run()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Members of a group with our consumer, with the protocol of tests/peers/java/legacy/GroupMember.java.

`python -m tests.peers.clients.group_member TOPIC FOLDER KEY=VALUE...`; the keys are those of the old consumer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from tests.bench.rebalance.members.protocol import RecordFile, serve

_POLL_MS = 100


class _Member(threading.Thread):
    def __init__(self, topic: str, folder: Path, name: str, config: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._consumer = BlockingZookeeperConsumer([topic], **(config | {"consumer_id": name}))
        self._consumer.start()
        self._records = RecordFile(folder, name)
        self._leaving = threading.Event()

    def run(self) -> None:
        with self._consumer as consumer:
            while not self._leaving.is_set():
                self._records.write((record.partition, record.offset) for record in consumer.poll(_POLL_MS))

    def leave(self) -> None:
        """Commit, release all partitions, and leave the group."""
        self._leaving.set()
        self.join()


def main(topic: str, folder: str, *pairs: str) -> None:
    """Execute requests until the input ends."""
    config = {key.replace(".", "_"): value for key, value in (pair.split("=", 1) for pair in pairs)}
    members: dict[str, _Member] = {}

    def join(names: Sequence[str]) -> None:
        for name in names:
            members[name] = _Member(topic, Path(folder), name, config)
            members[name].start()

    def leave(names: Sequence[str]) -> None:
        for name in names:
            members.pop(name).leave()

    serve(join, leave)


if __name__ == "__main__":
    main(*sys.argv[1:])

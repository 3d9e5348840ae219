"""Members of a broker-side group: kafka-python's KafkaConsumer, one thread each.

Arguments: topic, folder for the records, and a JSON object of the configuration, in which the strategy is a class name.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.bench.rebalance.members.protocol import RecordFile, serve

_STRATEGIES = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}
_POLL_TIMEOUT_MS = 100


class _Member(threading.Thread):
    def __init__(self, topic: str, records: RecordFile, config: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._consumer = KafkaConsumer(topic, **config)
        self._records = records
        self._leaving = threading.Event()

    def run(self) -> None:
        while not self._leaving.is_set():
            for batch in self._consumer.poll(timeout_ms=_POLL_TIMEOUT_MS).values():
                self._records.write((record.partition, record.offset) for record in batch)
        self._consumer.close()

    def leave(self) -> None:
        """Commit and leave the group."""
        self._leaving.set()
        self.join()


def main(topic: str, folder: str, config_json: str) -> None:
    config = json.loads(config_json)
    config["partition_assignment_strategy"] = [_STRATEGIES[config["partition_assignment_strategy"]]]
    members: dict[str, _Member] = {}

    def join(names: Sequence[str]) -> None:
        for name in names:
            members[name] = _Member(topic, RecordFile(Path(folder), name), config | {"client_id": name})
            members[name].start()

    def leave(names: Sequence[str]) -> None:
        for name in names:
            members.pop(name).leave()

    serve(join, leave)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What each replica of the simulated cluster has on its disk, and the changes between two moments."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from kafka_zk.sim.world.world import World
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records

Replicas = Mapping[tuple[str, str], tuple[str, ...]]
"""Values in the order of their offsets, by broker and partition; a dead broker's disk counts, too."""


def replicas(world: World) -> Replicas:
    """The records of all topics but internal ones."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for broker in world.brokers.values():
        for path, data in sorted(world.disk.everything(broker.folder).items()):
            partition = PurePosixPath(path).parent.name
            if path.endswith(".log") and not partition.startswith("__"):
                key = broker.name, partition
                found[key] = (*found.get(key, ()), *_values(data))
    return found


def changes(before: Replicas, after: Replicas) -> Iterator[tuple[str, str]]:
    """Broker and sentence of each replica that is not the same."""
    for (broker, partition), values in sorted(after.items()):
        old = before.get((broker, partition), ())
        if values == old:
            continue
        gone = "" if values[: len(old)] == old else f"; it had {' '.join(old)}"
        yield broker, f"its log of {partition} has {' '.join(values) or 'nothing'}{gone}"


def _values(data: bytes) -> Iterator[str]:
    for position, _ in iter_batches(memoryview(data)):
        for record in decode_records(data, position):
            yield (record.value or b"").decode().rpartition(":")[2]

"""Reads each replica's contents from its disk in the simulated cluster, and compares two moments."""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from kafka_zk.sim.world.world import SimBroker, World
from kafka_zk.storage.records.end_transaction_marker import marker_of
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records

Replicas = Mapping[tuple[str, str], tuple[str, ...]]
"""Values in the order of their offsets, by broker and partition; a dead broker's disk counts, too.

The marker that ends a transaction counts as the value ``(commit)`` or ``(abort)``.
"""


def replicas(world: World) -> Replicas:
    """The records of all topics but internal ones."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for broker in world.brokers.values():
        for partition, records in on_disk(world, broker).items():
            found[broker.name, partition] = tuple(value for _, value in records)
    return found


def on_disk(world: World, broker: SimBroker) -> dict[str, list[tuple[int, str]]]:
    """The offsets and values in a broker's logs, by folder name, without internal topics."""
    found: dict[str, list[tuple[int, str]]] = {}
    for path, data in sorted(world.disk.everything(broker.folder).items()):
        partition = PurePosixPath(path).parent.name
        if path.endswith(".log") and not partition.startswith("__"):
            found.setdefault(partition, []).extend(_records(data))
    return found


def changes(before: Replicas, after: Replicas) -> Iterator[tuple[str, str]]:
    """(Broker, sentence) for each replica that has changed."""
    for (broker, partition), values in sorted(after.items()):
        old = before.get((broker, partition), ())
        if values == old:
            continue
        gone = "" if values[: len(old)] == old else f"; it had {' '.join(old)}"
        yield broker, f"its log of {partition} has {' '.join(values) or 'nothing'}{gone}"


def _records(data: bytes) -> Iterator[tuple[int, str]]:
    for position, header in iter_batches(memoryview(data)):
        if header.is_control:
            marker = marker_of(memoryview(data)[position:], header)
            assert marker is not None, "brokers write no empty control batch"
            yield header.base_offset, "(abort)" if marker.is_abort else "(commit)"
            continue
        for record in decode_records(data, position):
            yield record.offset, (record.value or b"").decode().rpartition(":")[2]

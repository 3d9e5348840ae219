"""The history of a replicated topic, and its judge. Pure.

The evidence comes from outside the brokers: producers and readers, segment files, ZooKeeper's transaction log.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from tests.soak.zookeeper_log import Write

Records = Mapping[int, bytes]
"""Value by offset."""

_MOST_SHOWN = 3


class Acknowledged(NamedTuple):
    """``offset`` is -1 if the broker recognized a duplicate, but no longer knew its offset."""

    partition: int
    offset: int
    value: bytes


class Read(NamedTuple):
    offset: int
    value: bytes


class Evidence(NamedTuple):
    """``sent`` and ``read`` are in order, by name of the client and partition; ``logs`` by partition and broker.

    ``leaders_write_isr``: the inter-broker protocol is older than 2.7, so not only controllers write states.
    """

    topic: str
    sent: Mapping[str, Mapping[int, Sequence[bytes]]]
    acknowledged: Sequence[Acknowledged]
    failed: Sequence[str]
    read: Mapping[str, Mapping[int, Sequence[Read]]]
    logs: Mapping[int, Mapping[int, bytes]]
    writes: Sequence[Write]
    leaders_write_isr: bool = False


def faults(evidence: Evidence) -> list[str]:
    """A sentence for each violation."""
    found = [f"a client failed: {failure}" for failure in evidence.failed[:_MOST_SHOWN]]
    for partition, replicas in sorted(evidence.logs.items()):
        contents = set(replicas.values())
        if len(contents) > 1:
            found.append(f"partition {partition}: the replicas differ: {_first_difference(replicas)}")
        for broker_id, log in replicas.items() if len(contents) > 1 else list(replicas.items())[:1]:
            name = f"partition {partition} on broker {broker_id}"
            found += [f"{name}: {fault}" for fault in _log_faults(evidence, partition, log)]
    elections = election_faults(evidence.topic, evidence.writes, leaders_write_isr=evidence.leaders_write_isr)
    return [*found, *elections]


def values(log: bytes) -> dict[int, bytes]:
    """The records of a replica: value by offset."""
    return {
        record.offset: record.value or b""
        for position, header in iter_batches(log)
        if not header.attributes & 0x20
        for record in decode_records(log, position)
    }


def _first_difference(replicas: Mapping[int, bytes]) -> str:
    contents = {broker_id: values(log) for broker_id, log in replicas.items()}
    ends = {broker_id: max(records, default=-1) + 1 for broker_id, records in contents.items()}
    for offset in range(min(ends.values())):
        there = {broker_id: records.get(offset) for broker_id, records in contents.items()}
        if len(set(there.values())) > 1:
            return f"at offset {offset} {there}"
    return f"they end at {ends}"


def _log_faults(evidence: Evidence, partition: int, log: bytes) -> Iterator[str]:
    records = values(log)
    yield from _order_faults(evidence.sent, partition, records)
    acknowledged = [each for each in evidence.acknowledged if each.partition == partition]
    there = set(records.values())
    lost = [each for each in acknowledged if each.value not in there]
    if lost:
        yield f"{len(lost)} acknowledged records were lost, first {lost[0].value!r} at {lost[0].offset}"
    moved = [
        each for each in acknowledged
        if each.offset >= 0 and each.value in there and records.get(each.offset) != each.value
    ]  # fmt: skip
    if moved:
        yield f"{len(moved)} records are not where they were acknowledged, first {moved[0]}"
    for reader, read in evidence.read.items():
        yield from (f"{reader} {fault}" for fault in _reader_faults(read.get(partition, ()), records))
    epochs = [header.partition_leader_epoch for _, header in iter_batches(log)]
    if epochs != sorted(epochs):
        yield "the leader epochs of its batches go back"


def _order_faults(
    sent: Mapping[str, Mapping[int, Sequence[bytes]]], partition: int, records: Records
) -> Iterator[str]:
    stored = [value for _, value in sorted(records.items())]
    doubled = len(stored) - len(set(stored))
    if doubled:
        yield f"{doubled} records are there twice"
    for producer, by_partition in sent.items():
        order = {value: number for number, value in enumerate(by_partition.get(partition, ()))}
        numbers = [order[value] for value in stored if value in order]
        if any(later < earlier for earlier, later in pairwise(numbers)):
            yield f"the records of {producer} are not in the order they were sent in"


def _reader_faults(read: Sequence[Read], records: Records) -> Iterator[str]:
    offsets = [each.offset for each in read]
    if offsets != list(range(len(offsets))):
        wrong = next(place for place, offset in enumerate(offsets) if place != offset)
        yield f"was given offset {offsets[wrong]} where {wrong} follows"
    other = [each for each in read if records.get(each.offset) != each.value]
    if other:
        yield f"was given {len(other)} records that the log does not have, first {other[0]}"
    if len(read) < len(records):
        yield f"was given only {len(read)} of {len(records)} records"


class _State(NamedTuple):
    leader: int
    leader_epoch: int
    isr: Sequence[int]


def election_faults(topic: str, writes: Iterable[Write], *, leaders_write_isr: bool = False) -> list[str]:
    """Violations in the state znodes: two leaders in an epoch, decreasing epochs, a leader outside the ISR, two
    controllers in an epoch.

    A leader that writes its ISR itself names the controller that elected it, which may be gone.
    """
    wanted = re.compile(rf"/brokers/topics/{re.escape(topic)}/partitions/(\d+)/state$")
    before: dict[int, _State] = {}
    leaders: dict[tuple[int, int], int] = {}
    controllers: dict[int, int] = {}
    found = []
    last_controller_epoch = 0
    for write in writes:
        match = wanted.search(write.path)
        if match is None:
            continue
        data = json.loads(write.data)
        number, controller_epoch = int(match[1]), data["controller_epoch"]
        state = _State(data["leader"], data["leader_epoch"], data["isr"])
        name = f"partition {number} (zxid {write.zxid:x})"
        if leaders.setdefault((number, state.leader_epoch), state.leader) != state.leader:
            found.append(f"{name}: two leaders in leader epoch {state.leader_epoch}")
        if leaders_write_isr and number in before and state[:2] == before[number][:2]:
            before[number] = state
            continue
        if controllers.setdefault(controller_epoch, write.session) != write.session:
            found.append(f"{name}: two sessions wrote as the controller of epoch {controller_epoch}")
        if controller_epoch < last_controller_epoch:
            found.append(f"{name}: controller epoch {controller_epoch} after {last_controller_epoch}")
        last_controller_epoch = max(last_controller_epoch, controller_epoch)
        if number in before:
            found += [f"{name}: {fault}" for fault in _step_faults(before[number], state)]
        before[number] = state
    return found


def _step_faults(before: _State, after: _State) -> Iterator[str]:
    if after.leader_epoch < before.leader_epoch:
        yield f"leader epoch {after.leader_epoch} after {before.leader_epoch}"
    if after.leader not in (before.leader, -1) and after.leader not in before.isr:
        yield f"leader {after.leader} was not in the ISR {list(before.isr)}"


def summary(evidence: Evidence) -> str:
    """The amount of evidence."""
    epochs: dict[str, int] = defaultdict(int)
    for write in evidence.writes:
        if write.path.endswith("/state") and evidence.topic in write.path:
            epochs[write.path] = max(epochs[write.path], json.loads(write.data)["leader_epoch"])
    return f"{len(evidence.acknowledged)} records acknowledged, {sum(epochs.values())} leader epochs"

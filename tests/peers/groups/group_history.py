"""The history of a group, and the judges that find violations.

The history has three witnesses: the producer (acknowledged records), the members' journals (assignments, records and
confirmed commits), and `__consumer_offsets`, which has every generation and every commit in their order.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import confluent_kafka

from kafka_zk.broker.group.records import GroupKey, OffsetKey, decode_group_value, decode_key, decode_offset_value
from kafka_zk.protocol.primitives import read_count, read_name
from tests.peers.groups.mixed_group import Position

_OFFSETS_TOPIC = "__consumer_offsets"
_READ_TIMEOUT_S = 60.0
_SHOWN = 5


class Generation(NamedTuple):
    """A group record: the partitions that each member id has. ``at`` is the record's offset."""

    at: int
    number: int
    assignment: Mapping[str, frozenset[int]]


class Commit(NamedTuple):
    """An offset record. ``at`` is the record's own offset."""

    at: int
    partition: int
    offset: int


class Assigned(NamedTuple):
    """An assignment as a client reported it; ``generation`` is None if the client does not report one."""

    client: str
    member_id: str
    generation: int | None
    partitions: frozenset[int]


class Acknowledged(NamedTuple):
    """A commit that was confirmed to a client."""

    client: str
    partition: int
    offset: int


@dataclass
class History:
    """All events of one group according to the three witnesses."""

    written: set[Position] = field(default_factory=set)
    handed: set[Position] = field(default_factory=set)
    assigned: list[Assigned] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)

    def add_journal(self, client: str, lines: Sequence[str]) -> None:
        """Add the journal of one process; an incomplete line, left by a kill, is ignored."""
        for line in lines:
            said = json.loads(line)
            if said["event"] == "assigned":
                partitions = frozenset(said["partitions"])
                self.assigned.append(Assigned(client, said["member"], said.get("generation"), partitions))
            elif said["event"] == "handed":
                self.handed.update(Position(said["partition"], offset) for offset in said["offsets"])
            elif said["event"] == "committed":
                self.acknowledged += (
                    Acknowledged(client, int(partition), offset) for partition, offset in said["offsets"].items()
                )


def journal_lines(path: Path) -> list[str]:
    """The complete lines of a journal."""
    return path.read_text().split("\n")[:-1] if path.exists() else []


def faults(history: History) -> list[str]:
    """The violations, one sentence each; none if there are none."""
    return [
        *_lost(history),
        *_two_owners(history),
        *_generations_back(history),
        *_strange_assignments(history),
        *_commits_back(history),
        *_forgotten_commits(history),
    ]


def _lost(history: History) -> Iterator[str]:
    lost = sorted(history.written - history.handed)
    if lost:
        yield f"{len(lost)} of {len(history.written)} records were handed to no member: {_some(lost)}"


def _two_owners(history: History) -> Iterator[str]:
    """Partitions with two owners. A partition without an owner is not a fault of a broker: the leader may not know the
    topic yet.
    """
    for generation in history.generations:
        owners: dict[int, list[str]] = defaultdict(list)
        for member_id, partitions in generation.assignment.items():
            for partition in partitions:
                owners[partition].append(member_id)
        for partition, member_ids in owners.items():
            if len(member_ids) > 1:
                yield f"partition {partition} has two owners in generation {generation.number}: {member_ids}"


def _generations_back(history: History) -> Iterator[str]:
    seen: dict[int, Generation] = {}
    newest = 0
    for generation in history.generations:
        before = seen.setdefault(generation.number, generation)
        if generation.number < newest:
            yield f"generation {generation.number} is stored after {newest}, at {generation.at}"
        elif before.assignment != generation.assignment and generation.assignment:
            yield f"generation {generation.number} is stored twice, with another assignment at {generation.at}"
        newest = max(newest, generation.number)


def _strange_assignments(history: History) -> Iterator[str]:
    """Assignments that differ from the records: a member's assignment equals its generation's record, or one of its
    records if the client does not report generations.
    """
    of_member: dict[str, list[Generation]] = defaultdict(list)
    for generation in history.generations:
        for member_id in generation.assignment:
            of_member[member_id].append(generation)
    for client, member_id, number, partitions in history.assigned:
        stored = [
            generation.assignment[member_id]
            for generation in of_member[member_id]
            if number is None or generation.number == number
        ]
        if partitions not in stored:
            shown = _some(sorted(map(sorted, stored)))
            yield f"{client} ({member_id}) was given {sorted(partitions)} in generation {number}; stored is {shown}"


def _commits_back(history: History) -> Iterator[str]:
    newest: dict[int, Commit] = {}
    clients = {(partition, offset): client for client, partition, offset in history.acknowledged}
    for commit in history.commits:
        before = newest.setdefault(commit.partition, commit)
        if commit.offset < before.offset:
            yield (
                f"the offset of partition {commit.partition} goes back from {before.offset} "
                f"({clients.get(before[1:])}, record {before.at}) "
                f"to {commit.offset} ({clients.get(commit[1:])}, record {commit.at})"
            )
        newest[commit.partition] = commit


def _forgotten_commits(history: History) -> Iterator[str]:
    stored = {(commit.partition, commit.offset) for commit in history.commits}
    for client, partition, offset in history.acknowledged:
        if (partition, offset) not in stored:
            yield f"{client} was told that {offset} of partition {partition} is committed, but it is not stored"


def _some(things: Sequence[object]) -> str:
    more = len(things) - _SHOWN
    return ", ".join(map(str, things[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def read_offsets_topic(bootstrap: str, histories: Mapping[str, History], topic: str) -> None:
    """Fill in generations and commits by group id, from all of `__consumer_offsets`, which has one partition here."""
    for at, key, value in _records(bootstrap):
        named = decode_key(key)
        if not isinstance(named, OffsetKey | GroupKey) or named.group_id not in histories or value is None:
            continue
        history = histories[named.group_id]
        if isinstance(named, GroupKey):
            group = decode_group_value(value)
            assignment = {each.member_id: _assigned(each.assignment, topic) for each in group.members}
            history.generations.append(Generation(at, group.generation_id, assignment))
        elif named.tp.topic == topic:
            history.commits.append(Commit(at, named.tp.partition, decode_offset_value(value).offset))


def _records(bootstrap: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True, "log_level": 3}
    )
    consumer.assign([confluent_kafka.TopicPartition(_OFFSETS_TOPIC, 0, 0)])
    try:
        while True:
            message = consumer.poll(_READ_TIMEOUT_S)
            assert message is not None, f"{_OFFSETS_TOPIC} cannot be read to its end"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return
            offset, key, value = message.offset(), message.key(), message.value()
            assert offset is not None and isinstance(key, bytes)
            yield offset, key, value if value is None else bytes(value)
    finally:
        consumer.close()


def _assigned(assignment: bytes, topic: str) -> frozenset[int]:
    """The partitions of the topic in a ConsumerProtocolAssignment; none if it is empty."""
    if not assignment:
        return frozenset()
    count, position = read_count(assignment, 2, False)
    found: set[int] = set()
    for _ in range(count):
        name, position = read_name(assignment, position, False)
        number, position = read_count(assignment, position, False)
        for _ in range(number):
            if name == topic:
                found.add(int.from_bytes(assignment[position : position + 4], "big"))
            position += 4
    return frozenset(found)

"""``/consumers/<group>/kafka-zk/assignment``: the group leader's decision. Not in Kafka.

    {"version":1,"generation":7,"strategy":"cooperative-sticky","leader":"<consumer id>",
     "threads":["<consumer id>-0",…],"partitions":{"t1":[0,0,1,-1]},"static":{"<consumer id>":"45000"},
     "capacities":{"<consumer id>":2}}

``partitions``: per topic, by partition number, an index into ``threads`` (-1: none). ``static``: timeouts in ms of
static members, whose partitions are reserved during their absence; ``capacities``: the capacities that the static
members registered, if any. The znode is persistent. It is only advice: the owner znode decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_zk.base.integers import INT64
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import InvalidZnode, RequestTooLarge
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.consumers import CAPACITIES, group_path, is_thread_id

SIZE_LIMIT_BYTES = 1_000_000  # below the packet limit (1,048,575), with path and header

_NOBODY = -1


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """One generation of the group. ``assignment``: partition -> id of the thread that should own it. ``leader``: the
    consumer id of the member that computed it."""

    generation: int
    strategy: str
    leader: str
    assignment: Mapping[TopicPartition, str]
    static_members: Mapping[str, int] = field(default_factory=dict)  # consumer id -> timeout in ms
    capacities: Mapping[str, int] = field(default_factory=dict)  # consumer id -> registered capacity


def assignment_path(group: str) -> str:
    return f"{group_path(group)}/kafka-zk/assignment"


def encode(group_assignment: GroupAssignment) -> bytes:
    """Raises RequestTooLarge if it does not fit into one znode."""
    threads = sorted(set(group_assignment.assignment.values()))
    number_of = {thread_id: number for number, thread_id in enumerate(threads)}
    partitions: dict[str, list[int]] = {}
    for tp, thread_id in sorted(group_assignment.assignment.items()):
        listed = partitions.setdefault(tp.topic, [])
        listed.extend([_NOBODY] * (tp.partition - len(listed)))
        listed.append(number_of[thread_id])
    data = json_codec.encode(
        {
            "version": 1,
            "generation": group_assignment.generation,
            "strategy": group_assignment.strategy,
            "leader": group_assignment.leader,
            "threads": threads,
            "partitions": partitions,
            "static": {member: str(timeout_ms) for member, timeout_ms in group_assignment.static_members.items()},
            **({"capacities": dict(group_assignment.capacities)} if group_assignment.capacities else {}),
        }
    )
    if len(data) > SIZE_LIMIT_BYTES:
        raise RequestTooLarge(
            f"the assignment of {len(group_assignment.assignment)} partitions to {len(threads)} threads takes"
            f" {len(data)} bytes; one znode holds {SIZE_LIMIT_BYTES}. Use range or roundrobin for this group"
        )
    return data


def decode(path: str, data: bytes | None) -> GroupAssignment:
    """Raises InvalidZnode."""
    document = json_codec.decode_object(path, data)
    json_codec.version(path, document)
    threads = json_codec.text_list(path, "threads", document.get("threads"))
    for thread in threads:
        if not is_thread_id(thread):
            raise InvalidZnode(f"{path}: {json_codec.shown(thread)} is not a thread id")
    partitions, static = document.get("partitions"), document.get("static", {})
    capacities = document.get("capacities", {})
    if not (isinstance(partitions, dict) and isinstance(static, dict) and isinstance(capacities, dict)):
        raise InvalidZnode(f"{path}: 'partitions', 'static' and 'capacities' must be objects")
    assignment: dict[TopicPartition, str] = {}
    for topic, listed in partitions.items():
        for partition, number in enumerate(json_codec.broker_ids(path, topic, listed)):
            if not _NOBODY <= number < len(threads):
                raise InvalidZnode(f"{path}: partition {partition} of {topic!r} is given to thread {number}")
            if number != _NOBODY:
                assignment[TopicPartition(topic, partition)] = threads[number]
    return GroupAssignment(
        json_codec.integer(path, document, "generation", within=INT64),
        json_codec.text(path, document, "strategy"),
        json_codec.text(path, document, "leader"),
        assignment,
        {member: json_codec.integer(path, static, member, within=INT64) for member in static},
        {member: json_codec.integer(path, capacities, member, within=CAPACITIES) for member in capacities},
    )

"""The same changes in both kinds of groups, side by side."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.broker_member import HEARTBEAT_MS, SESSION_TIMEOUT_MS
from kafka_zk.learn.lesson.classroom import Classroom, Group
from kafka_zk.recorder.timeline.rebalances import GroupRebalance
from kafka_zk.recorder.timeline.summary import Summaries

PARTITIONS = 6
ZOOKEEPER, BROKER = "ZooKeeper", "broker"
_LABEL, _CELL = 10, 11


class Change(NamedTuple):
    """``name``: the header of its columns."""

    name: str
    sentence: str
    do: Callable[[Classroom, Group], None]


CHANGES = (
    Change("join", "cleo joins.", lambda room, group: _join(room, group, "cleo")),
    Change("leave", "anna leaves; she joined first.", lambda room, group: room.leave(group, group.member("anna"))),
    Change("kill", "ben is killed.", lambda room, group: _kill(room, group, "ben")),
)


def same_change_twice(room: Classroom) -> dict[str, Any]:
    """Join, leave, kill: requests, silence of each partition, and who decides."""
    teacher = room.teacher
    teacher.chapter(4, "The same change, twice")
    teacher.say(
        "Since Kafka 0.9, a broker can coordinate a group. Its members set no watches. They send heartbeats, and when "
        "the group changes, the response asks them to join again. Here are two groups that read one topic, a "
        "ZooKeeper group and a broker group. Both are eager (range), and both go through the same changes. Watches are "
        "not held back in this chapter, because it measures time."
    )
    room.gate.closed = False
    topic = room.topic("orders", PARTITIONS)
    groups = {
        ZOOKEEPER: room.group("old", topic, PARTITIONS, "range"),
        BROKER: room.broker_group("new", topic, PARTITIONS, "range"),
    }
    for group in groups.values():
        for name in ("anna", "ben"):
            room.join(group, name)
        room.news(group)
    found: dict[str, dict[str, GroupRebalance]] = {}
    teacher.ask(questions.WHERE_IT_STOPS)
    for change in CHANGES:
        teacher.tell(change.sentence)
        found[change.name] = {kind: _changed(room, group, change) for kind, group in groups.items()}
        for kind, rebalance in found[change.name].items():
            teacher.show(f"{kind:<{len(ZOOKEEPER)}}  {Summaries(groups[kind].name).line(rebalance)}")
    teacher.tell("The silence of each partition in ms, and the number of requests:")
    teacher.picture(table(found))
    _who_decides(room, found)
    room.dismiss()
    return {
        name: {kind: _measured(groups[kind], each) for kind, each in kinds.items()} for name, kinds in found.items()
    }


def table(found: Mapping[str, Mapping[str, GroupRebalance]]) -> Iterator[str]:
    """A column for each change and kind of group, a row for each silent partition, and the requests."""
    columns = [each for kinds in found.values() for each in kinds.values()]
    kinds = [kind for by_kind in found.values() for kind in by_kind]
    widths = {name: _CELL * len(by_kind) for name, by_kind in found.items()}
    yield (" " * _LABEL + "".join(f"{name:^{width}}" for name, width in widths.items())).rstrip()
    yield " " * _LABEL + "".join(f"{kind:>{_CELL}}" for kind in kinds)
    for tp in sorted({silence.partition for each in columns for silence in each.silences}):
        silent = [{each.partition: each.silent_ms for each in column.silences}.get(tp) for column in columns]
        yield f"{tp!s:<{_LABEL}}" + "".join(f"{'-' if ms is None else ms:>{_CELL}}" for ms in silent)
    requests = [sum(each.requests.values()) for each in columns]
    yield f"{'requests':<{_LABEL}}" + "".join(f"{count:>{_CELL}}" for count in requests)


def _who_decides(room: Classroom, found: Mapping[str, Mapping[str, GroupRebalance]]) -> None:
    teacher = room.teacher
    teacher.say(
        "Who decided what? In ZooKeeper, only the members did: the watch on ids notifies each member of the change. "
        "The member reads members and partitions again, and computes the same assignment as the others. It claims a "
        "partition when the previous owner has released it. ZooKeeper decides only who is alive: the owners of the "
        "sessions that it has not ended."
    )
    teacher.say(
        "With the broker, the coordinator decides who is a member, and when all have joined. The group's leader, "
        "which is the member that joined first, computes the assignment for all. The coordinator stores it in "
        "__consumer_offsets and distributes it. A member learns of a change only from the response to its next "
        "heartbeat, so the first member to learn of it waits for the last: heartbeats are sent every "
        f"{HEARTBEAT_MS} ms here, every 3 s by default. A dead member's session ends after "
        f"{SESSION_TIMEOUT_MS / 1000:g} s here, 45 s by default; in both groups, the silence of its partitions is "
        "measured from then on."
    )


def _changed(room: Classroom, group: Group, change: Change) -> GroupRebalance:
    known = len(group.timeline.summaries)
    change.do(room, group)
    return room.rebalance(group, known)


def _join(room: Classroom, group: Group, name: str) -> None:
    room.join(group, name)


def _kill(room: Classroom, group: Group, name: str) -> None:
    group.member(name).kill()
    room.settle(group)


def _measured(group: Group, rebalance: GroupRebalance) -> dict[str, Any]:
    return {
        "why": Summaries(group.name).why(rebalance),
        "requests": sum(rebalance.requests.values()),
        "duration_ms": rebalance.duration_ms,
        "moved": len(rebalance.moved),
        "silent_ms": {str(each.partition): each.silent_ms for each in rebalance.silences},
    }

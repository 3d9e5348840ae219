"""Each chapter returns its measurements, for programs and tests."""

import time
from collections.abc import Callable
from typing import Any

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.learn.lesson import questions
from kafka_zk.learn.lesson.acks import acks_and_min_isr
from kafka_zk.learn.lesson.broker_room import BrokerRoom
from kafka_zk.learn.lesson.chart import lag_chart
from kafka_zk.learn.lesson.classroom import PATIENCE_S, Classroom, Group
from kafka_zk.learn.lesson.course import Chapter
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.kills import TIMES_MS, Kill, Writer, average_input, usual_lag
from kafka_zk.learn.lesson.leader_death import leader_dies
from kafka_zk.learn.lesson.permissions import permissions
from kafka_zk.learn.lesson.secured_room import SecuredRoom
from kafka_zk.learn.lesson.truncation import truncation
from kafka_zk.learn.lesson.twice import same_change_twice
from kafka_zk.learn.lesson.two_controllers import two_controllers
from kafka_zk.learn.lesson.unclean_election import unclean_election
from kafka_zk.recorder.timeline.names import listed
from kafka_zk.recorder.timeline.rebalances import GroupRebalance

RECORDS_PER_GROUP = 20
LAG_PARTITIONS = 6
KILLS = 5
DELAY_MS = 15
BEFORE_S, AFTER_S = 0.3, 0.5
BAR_WIDTH = 16


def idle_member(room: Classroom) -> dict[str, Any]:
    """Five consumers for four partitions."""
    teacher = room.teacher
    teacher.chapter(1, "Five consumers, four partitions")
    teacher.say(
        "Each consumer of a group creates an ephemeral znode under /consumers/<group>/ids and watches that list. The "
        f"watch notifies it when others join or leave. {teacher.watches}"
    )
    topic = room.topic("lesson", 4)
    group = room.group("class", topic, 4, "cooperative")
    for name in ("anna", "ben", "cleo", "dora", "emil"):
        if name == "emil":
            teacher.ask(questions.FIFTH_MEMBER)
        teacher.tell(f"{name} joins.")
        room.join(group, name)
        _tell(room, group)
    _shares(room, group)
    (idle,) = [member for member in group.living if not member.owned]
    teacher.say(
        f"{idle.name} is idle: within a group, a partition has only one owner, or the order of its records would be "
        "lost. A fifth consumer is only a spare; more parallelism needs more partitions."
    )
    leaver = next(member for member in group.living if member.owned)
    teacher.ask(questions.BEFORE_TAKING_OVER)
    teacher.tell(f"{leaver.name} leaves. Its owner znodes are deleted, and the spare takes over.")
    room.leave(group, leaver)
    _tell(room, group)
    _shares(room, group)
    teacher.tell("The whole chapter, by partition and time. Only partitions that moved were silent, each for a moment.")
    teacher.picture(group.picture(teacher.width - 3))
    shares = {member.name: len(member.owned) for member in group.living}
    silences = [each.longest_silence_ms for each in group.timeline.summaries]
    room.dismiss()
    return {"idle": idle.name, "left": leaver.name, "shares_after": shares, "longest_silences_ms": silences}


def two_groups(room: Classroom) -> dict[str, Any]:
    """Two groups on one topic: each gets everything."""
    teacher = room.teacher
    teacher.chapter(2, "Two groups on one topic")
    teacher.say(
        "A group is a name with offsets. Two groups are independent: each has its own ids, owners and offsets under "
        "/consumers, so each receives every record."
    )
    topic = room.topic("news", 2)
    with BlockingProducer(None, bootstrap_servers=room.bootstrap) as producer:
        for number in range(RECORDS_PER_GROUP):
            producer.send(topic, b"%d" % number, partition=number % 2)
    groups = [room.group(name, topic, 2, "range") for name in ("cats", "dogs")]
    for group, names in zip(groups, (("anna", "ben"), ("cleo",)), strict=True):
        for name in names:
            if group is groups[-1]:
                teacher.ask(questions.SECOND_GROUP)
            teacher.tell(f"{name} joins {group.name}.")
            room.join(group, name)
            _tell(room, group)
    _wait(room, lambda: all(len(group.firsts()) >= RECORDS_PER_GROUP for group in groups), "both groups to read all")
    for group in groups:
        for member in group.living:
            teacher.show(f"{group.name:<5} {member.name:<5} has {listed(member.owned)}, read {len(member.got)} records")
    teacher.say(f"{RECORDS_PER_GROUP} records were written; each group read all {RECORDS_PER_GROUP} of them.")
    seen = {group.name: len(group.firsts()) for group in groups}
    room.dismiss()
    return {"written": RECORDS_PER_GROUP, "read": seen}


def eager_and_cooperative(room: Classroom) -> dict[str, Any]:
    """The same kill in both groups, repeated."""
    teacher = room.teacher
    teacher.chapter(3, "The same kill, eager and cooperative")
    teacher.say(
        "Two groups of three members read the same topic. One is eager (range): at any change, all members stop and "
        "release everything. The other is cooperative: only partitions that move are stopped. Now ben is killed, "
        f"first in one group, then in the other, {KILLS} times, and rejoins between kills. Here ben's session "
        "expires immediately; normally ZooKeeper waits for the session timeout, 6 s by default. Watches are not held "
        f"back in this chapter, because it measures time. But every response of ZooKeeper is delayed by {DELAY_MS} ms, "
        "as from a distant server: on one machine the rebalance would be too short to see."
    )
    room.gate.closed, room.gate.delay_s = False, DELAY_MS / 1000
    topic = room.topic("input", LAG_PARTITIONS)
    groups = {
        "eager": room.group("eager", topic, LAG_PARTITIONS, "range"),
        "cooperative": room.group("cooperative", topic, LAG_PARTITIONS, "cooperative"),
    }
    for group in groups.values():
        for name in ("anna", "ben", "cleo"):
            room.join(group, name)
        room.news(group)
    writer = Writer(room.bootstrap, topic, LAG_PARTITIONS)
    with writer:
        kills: dict[str, list[Kill]] = {name: [] for name in groups}
        for number in range(1, KILLS + 1):
            for name, group in groups.items():
                kills[name].append(_kill(room, group, number < KILLS))
            silent = ", ".join(f"{name} {_kills(group)[-1].longest_silence_ms} ms" for name, group in groups.items())
            teacher.show(f"kill {number} of {KILLS}, longest silence of a partition: {silent}")
    written = len(writer.written)
    _wait(room, lambda: all(len(group.firsts()) >= written for group in groups.values()), "both groups to catch up")
    lags = {name: usual_lag(kills[name], writer.written, group.firsts()) for name, group in groups.items()}
    teacher.ask(questions.WHO_WAITS)
    teacher.tell(
        f"The lag of the four partitions that ben did not have, in records: the median of {KILLS} kills. These "
        "partitions had nothing to do with ben; where they wait, they wait only for the rebalance."
    )
    killed_at = TIMES_MS.index(0)
    inputs = average_input([kill for each in kills.values() for kill in each], writer.written)
    teacher.picture(lag_chart(lags, inputs, TIMES_MS, {killed_at: "ben is killed"}, BAR_WIDTH))
    measured = {name: _measured(group, lags[name], killed_at) for name, group in groups.items()}
    for name, each in measured.items():
        teacher.show(_sentence(name, each))
    twice = ", ".join(f"{name} {each['delivered_twice'] // KILLS}" for name, each in measured.items())
    teacher.show(f"records delivered again per kill: {twice}")
    teacher.say(
        "Neither group lost a record; they differ in which members had to wait. Records that ben had read since the "
        "last commit were delivered again, to others: this is what `at least once` means."
    )
    room.dismiss()
    return {"written": written, **measured}


def _of_groups(chapter: Callable[[Classroom], dict[str, Any]]) -> Chapter:
    return lambda rooms: chapter(rooms.classroom())


def _of_brokers(chapter: Callable[[BrokerRoom], dict[str, Any]]) -> Chapter:
    return lambda rooms: chapter(rooms.broker_room())


def _of_users(chapter: Callable[[SecuredRoom], dict[str, Any]]) -> Chapter:
    return lambda rooms: chapter(rooms.secured_room())


CHAPTERS: dict[int, Chapter] = {
    1: _of_groups(idle_member),
    2: _of_groups(two_groups),
    3: _of_groups(eager_and_cooperative),
    4: _of_groups(same_change_twice),
    5: _of_brokers(leader_dies),
    6: _of_brokers(acks_and_min_isr),
    7: _of_brokers(unclean_election),
    8: _of_brokers(two_controllers),
    9: _of_brokers(truncation),
    10: _of_users(permissions),
}


def _kill(room: Classroom, group: Group, again: bool) -> Kill:
    """Kill ben and observe the effects; ``again``: let a new ben join."""
    time.sleep(BEFORE_S)
    ben = group.member("ben")
    kill = Kill(time.time(), frozenset(tp.partition for tp in ben.owned))
    ben.kill()
    room.settle(group)
    time.sleep(AFTER_S)
    room.news(group)
    if again:
        room.join(group, "ben")
        room.news(group)
    return kill


def _kills(group: Group) -> list[GroupRebalance]:
    return [summary for summary in group.timeline.summaries if summary.members.expired]


def _measured(group: Group, lag: list[float], killed_at: int) -> dict[str, Any]:
    summaries = _kills(group)
    stayed = [each.silent_ms or 0 for summary in summaries for each in summary.stayed]
    silences = [each.silent_ms or 0 for summary in summaries for each in summary.silences]
    return {
        "stopped": max(len(summary.silences) for summary in summaries),
        "never_stopped": min(summary.untouched_count for summary in summaries),
        "moved": max(len(summary.moved) for summary in summaries),
        "longest_silence_ms": max(silences, default=0),
        "longest_silence_of_others_ms": max(stayed, default=0),
        "zookeeper_requests": sum(sum(summary.requests.values()) for summary in summaries) // len(summaries),
        "lag_before": round(max(lag[:killed_at]), 1),
        "lag_after": round(max(lag[killed_at:]), 1),
        "delivered_twice": sum(len(member.got) for member in group.members) - len(group.firsts()),
    }


def _sentence(name: str, measured: dict[str, Any]) -> str:
    return (
        f"{name}: {measured['stopped']} partitions stopped, for at most {measured['longest_silence_ms']} ms; "
        f"{measured['never_stopped']} never stopped; {measured['zookeeper_requests']} requests per kill"
    )


def _wait(room: Classroom, done: Callable[[], bool], what: str) -> None:
    if not room.gate.open_until(done, time.monotonic() + PATIENCE_S):
        raise LessonFailed(f"waited {PATIENCE_S} s for {what}, without success")


def _tell(room: Classroom, group: Group) -> None:
    for line in room.news(group):
        room.teacher.show(line)


def _shares(room: Classroom, group: Group) -> None:
    for member in group.living:
        room.teacher.show(f"{member.name:<5} owns {listed(member.owned)}")

"""The lesson's three chapters. Each returns what was seen, for programs and tests."""

import threading
import time
from collections.abc import Callable
from typing import Any

from kafka_zk.lesson.chart import lag_chart, lags
from kafka_zk.lesson.classroom import PATIENCE_S, Classroom, Group
from kafka_zk.lesson.errors import LessonFailed
from kafka_zk.producer.blocking import BlockingProducer
from kafka_zk.timeline.narrator import listed

RECORDS_PER_GROUP = 20
LAG_PARTITIONS = 6
INPUT_PER_SECOND = 1_200
STEP_S = 0.005
BEFORE_S, AFTER_S = 0.8, 1.2
BIN_MS = 25
SHOWN_MS = (-100, 500)
BAR_WIDTH = 24


def idle_member(room: Classroom) -> dict[str, Any]:
    """Five consumers on four partitions."""
    teacher = room.teacher
    teacher.chapter(1, "Five consumers, four partitions")
    teacher.say(
        "Each consumer of a group creates an ephemeral znode under /consumers/<group>/ids and watches that list. "
        "This is how it learns that others join and leave."
    )
    room.topic("lesson", 4)
    group = room.group("class", "lesson", 4, "cooperative")
    for name in ("anna", "ben", "cleo", "dora", "emil"):
        teacher.say(f"{name} joins.")
        room.join(group, name)
        _tell(room, group)
    _shares(room, group)
    (idle,) = [member for member in group.living if not member.owned]
    teacher.say(
        f"{idle.name} is idle: a partition has one owner in a group, or its order would be lost. A fifth consumer is "
        "only a spare; more parallelism needs more partitions."
    )
    leaver = next(member for member in group.living if member.owned)
    teacher.say(f"{leaver.name} leaves. Its owner znodes go, and the spare takes over.")
    room.leave(group, leaver)
    _tell(room, group)
    _shares(room, group)
    shares = {member.name: len(member.owned) for member in group.living}
    room.dismiss(group)
    return {"idle": idle.name, "left": leaver.name, "shares_after": shares}


def two_groups(room: Classroom) -> dict[str, Any]:
    """Two groups on one topic: each gets everything."""
    teacher = room.teacher
    teacher.chapter(2, "Two groups on one topic")
    teacher.say(
        "A group is a name with offsets. Two groups do not know each other: each has its own ids, owners and "
        "offsets under /consumers, so each gets every record."
    )
    room.topic("news", 2)
    with BlockingProducer(None, bootstrap_servers=room.bootstrap) as producer:
        for number in range(RECORDS_PER_GROUP):
            producer.send("news", b"%d" % number, partition=number % 2)
    groups = [room.group(name, "news", 2, "range") for name in ("cats", "dogs")]
    for group, names in zip(groups, (("anna", "ben"), ("cleo",)), strict=True):
        for name in names:
            teacher.say(f"{name} joins {group.name}.")
            room.join(group, name)
            _tell(room, group)
    _wait(room, lambda: all(len(_firsts(group)) >= RECORDS_PER_GROUP for group in groups), "both groups to read all")
    for group in groups:
        for member in group.living:
            teacher.show(f"{group.name:<5} {member.name:<5} has {listed(member.owned)}, read {len(member.got)} records")
    teacher.say(f"{RECORDS_PER_GROUP} records were written; each group read all {RECORDS_PER_GROUP} of them.")
    seen = {group.name: len(_firsts(group)) for group in groups}
    for group in groups:
        room.dismiss(group)
    return {"written": RECORDS_PER_GROUP, "read": seen}


def eager_and_cooperative(room: Classroom) -> dict[str, Any]:
    """The same kill in two groups, side by side."""
    teacher = room.teacher
    teacher.chapter(3, "The same kill, eager and cooperative")
    teacher.say(
        "Two groups of three read the same topic. One is eager (range): at any change all members stop and release "
        "everything. The other is cooperative: only partitions that move stop. Now ben is killed in both. (Here his "
        "session expires at once; otherwise ZooKeeper waits for the session timeout, 6 s by default.) Watches "
        "are not held back in this chapter, since it measures time."
    )
    room.gate.closed = False
    room.topic("input", LAG_PARTITIONS)
    groups = {
        "eager": room.group("eager", "input", LAG_PARTITIONS, "range"),
        "cooperative": room.group("cooperative", "input", LAG_PARTITIONS, "cooperative"),
    }
    for group in groups.values():
        for name in ("anna", "ben", "cleo"):
            room.join(group, name)
        _forget(group)
    writer = _Writer(room.bootstrap)
    with writer:
        time.sleep(BEFORE_S)
        killed_s = time.time()
        for group in groups.values():
            group.members[1].kill()
        room.settle(*groups.values())
        time.sleep(AFTER_S)
    written = len(writer.written_s)
    _wait(room, lambda: all(len(_firsts(group)) >= written for group in groups.values()), "both groups to catch up")
    largest = _plot(room, groups, writer.written_s, killed_s)
    report: dict[str, Any] = {"written": written, "largest_lag": largest}
    for name, group in groups.items():
        list(group.news())
        summary = group.timeline.summaries[-1]
        silences = [each.silent_ms or 0 for each in summary.silences]
        report[name] = {
            "stopped": len(summary.silences),
            "never_stopped": summary.untouched_count,
            "moved": len(summary.moved),
            "longest_silence_ms": max(silences, default=0),
            "zookeeper_requests": sum(summary.requests.values()),
            "delivered_twice": sum(len(member.got) for member in group.members) - len(_firsts(group)),
        }
        teacher.show(
            f"{name:<11}: {len(summary.silences)} partitions stopped, at most for {max(silences, default=0)} ms; "
            f"{summary.untouched_count} never did; {sum(summary.requests.values())} requests to ZooKeeper"
        )
    twice = " and ".join(str(report[name]["delivered_twice"]) for name in groups)
    teacher.say(
        "Both lost nothing; the difference is who had to wait. Records that ben had read since his last commit were "
        f"delivered again, to others ({twice} records): that is what `at least once` means."
    )
    room.gate.closed = True
    return report


CHAPTERS: dict[int, Callable[[Classroom], dict[str, Any]]] = {1: idle_member, 2: two_groups, 3: eager_and_cooperative}


class _Writer:
    """Writes to all partitions in turn at a steady rate, in a thread, until its block ends."""

    def __init__(self, bootstrap: str) -> None:
        self.written_s: list[float] = []
        self._bootstrap = bootstrap
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with BlockingProducer(None, bootstrap_servers=self._bootstrap) as producer:
                began_s = time.time()
                while not self._ended.wait(STEP_S):
                    due = int((time.time() - began_s) * INPUT_PER_SECOND)
                    while len(self.written_s) < due:
                        now_ms = int(time.time() * 1000)
                        partition = len(self.written_s) % LAG_PARTITIONS
                        producer.send("input", b"x", partition=partition, timestamp_ms=now_ms)
                        self.written_s.append(now_ms / 1000)
        except Exception as error:
            self._failure = error  # for the lesson's thread


def _plot(room: Classroom, groups: dict[str, Group], written_s: list[float], killed_s: float) -> dict[str, int]:
    times_ms = list(range(*SHOWN_MS, BIN_MS))
    times_s = [killed_s + time_ms / 1000 for time_ms in times_ms]
    lag = {
        name: lags(written_s, _firsts(group).values(), times_s)
        for name, group in groups.items()
    }
    before = [killed_s + (time_ms - BIN_MS) / 1000 for time_ms in times_ms]
    inputs = [
        sum(start < written <= end for written in written_s) for start, end in zip(before, times_s, strict=True)
    ]
    for line in lag_chart(lag, inputs, times_ms, {times_ms.index(0): "ben is killed"}, BAR_WIDTH):
        room.teacher.show(line)
    return {name: max(values) for name, values in lag.items()}


def _firsts(group: Group) -> dict[tuple[int, int], float]:
    """When each record, by partition and offset, was handed out first."""
    firsts: dict[tuple[int, int], float] = {}
    for got in sorted((got for member in group.members for got in list(member.got)), key=lambda got: got.got_s):
        firsts.setdefault((got.partition, got.offset), got.got_s)
    return firsts


def _wait(room: Classroom, done: Callable[[], bool], what: str) -> None:
    if not room.gate.open_until(done, time.monotonic() + PATIENCE_S):
        raise LessonFailed(f"waited {PATIENCE_S} s in vain for {what}")


def _tell(room: Classroom, group: Group) -> None:
    for line in group.news():
        room.teacher.show(line)


def _forget(group: Group) -> None:
    for _ in group.news():
        pass


def _shares(room: Classroom, group: Group) -> None:
    for member in group.living:
        room.teacher.show(f"{member.name:<5} owns {listed(member.owned)}")

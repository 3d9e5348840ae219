"""Failovers and rebalances as episodes: one line with the silence instead of a hundred changes. Pure.

Changes of holders belong to one episode if they concern the cluster or the same group, and follow each other closely.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_zk.recorder.recording.holds import OF_ZOOKEEPER
from kafka_zk.recorder.recording.spans import Move
from kafka_zk.recorder.timeline.names import counted

NEAR_MS = 2_000
"""Changes that are further apart belong to different episodes."""
MOST_NAMES = 3
NOBODY = ""
CLUSTER = "cluster"
ASSIGNED = "assigned"
IN_ZOOKEEPER, IN_BROKER = "group", "group of the broker"


class GroupStep(NamedTuple):
    """A rebalance began (``began``), or ended with a new ``generation``."""

    group: str
    began: bool
    generation: int
    member_count: int
    time_ms: int


class Episode(NamedTuple):
    """``subject``: the cluster or a group. ``silent_ms``: the longest time that a partition had no leader, or no owner
    in ZooKeeper. ``lasts``: it is not over yet.
    """

    subject: str
    text: str
    from_ms: int
    to_ms: int
    silent_ms: int
    lasts: bool


def episodes(moves: Iterable[Move], steps: Iterable[GroupStep], now_ms: int) -> list[Episode]:
    """The episodes by time. ``moves`` and ``steps`` are sorted by time."""
    told = [*_of_moves(moves, now_ms), *_of_steps(steps, now_ms)]
    return sorted(told, key=lambda each: each.from_ms)


def _of_moves(moves: Iterable[Move], now_ms: int) -> list[Episode]:
    open_ones: dict[str, list[Move]] = {}
    found: list[list[Move]] = []
    for move in moves:
        if move.holder == move.previous or move.kind in (ASSIGNED, *OF_ZOOKEEPER):
            continue  # the ISR changed or a member registered again; coordinators report their own steps
        subject = _subject(move)
        episode = open_ones.get(subject)
        if episode is None or move.from_ms - episode[-1].from_ms > NEAR_MS:
            episode = open_ones[subject] = []
            found.append(episode)
        episode.append(move)
    told = (_told(each, now_ms) for each in found)
    return [each for each in told if each.text]


def _subject(move: Move) -> str:
    if move.kind in ("owner", "member"):
        return f"{IN_ZOOKEEPER} {move.lane.partition(': ')[0]}"
    return CLUSTER


def _told(moves: list[Move], now_ms: int) -> Episode:
    subject, begin, end = _subject(moves[0]), moves[0].from_ms, moves[-1].from_ms
    text = _cluster_text(moves) if subject == CLUSTER else _group_text(moves)
    waiting = [each for each in moves if each.kind in ("leader", "owner") and each.holder == NOBODY and each.previous]
    longest = max(((now_ms if each.to_ms is None else each.to_ms) - each.from_ms for each in waiting), default=0)
    longest = max([longest, *_stranded_ms(moves)])
    lasts = any(each.to_ms is None and each.kind == "leader" for each in waiting)
    end = max([end, *(each.to_ms for each in waiting if each.to_ms is not None)])
    return Episode(subject, text, begin, end, longest, lasts)


def _stranded_ms(moves: list[Move]) -> Iterator[int]:
    """How long each partition of a broker without a session waited for another leader. Later moves, such as the return
    to the preferred leader, do not count as an outage.
    """
    gone: dict[str, int] = {}
    for move in moves:
        if move.kind == "broker" and move.holder == NOBODY:
            gone[move.lane] = move.from_ms
        elif move.kind == "broker":
            gone.pop(move.lane, None)
        elif move.kind == "leader" and move.previous in gone:
            yield move.from_ms - gone[move.previous]


def _cluster_text(moves: list[Move]) -> str:
    brokers = [each for each in moves if each.kind == "broker"]
    leaders = [each for each in moves if each.kind == "leader"]
    first = [each for each in leaders if each.previous is None]
    moved = {each.lane: each for each in leaders if each.previous is not None and each.holder}
    lost = {each.lane for each in leaders if each.holder == NOBODY} - set(moved)
    controller = [each.holder for each in moves if each.kind == "controller" and each.holder]
    return "; ".join(part for part in (
        _names([each.lane for each in brokers if each.holder == NOBODY], "lost its session", "lost their sessions"),
        _names([each.lane for each in brokers if each.holder], "registered", "registered"),
        f"the controller is {controller[-1]}" if controller else "",
        f"{_partitions(len(first))} got a first leader" if first else "",
        f"{_partitions(len(moved))} moved to other leaders" if moved else "",
        f"{_partitions(len(lost))} without a leader" if lost else "",
    ) if part)  # fmt: skip


def _group_text(moves: list[Move]) -> str:
    members = [each for each in moves if each.kind == "member"]
    owners = [each for each in moves if each.kind == "owner"]
    claimed = {each.lane for each in owners if each.holder}
    left = {each.lane for each in owners if each.holder == NOBODY} - claimed
    return "; ".join(part for part in (
        _names([_member(each) for each in members if each.holder == NOBODY], "left", "left"),
        _names([_member(each) for each in members if each.holder], "joined", "joined"),
        f"rebalanced: {_partitions(len(claimed))} claimed" if claimed else "",
        f"{_partitions(len(left))} without an owner" if left else "",
    ) if part)  # fmt: skip


def _member(move: Move) -> str:
    return move.lane.partition(": ")[2]


def _partitions(count: int) -> str:
    return counted(count, "partition")


def _names(names: list[str], one: str, many: str) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
    return f"{shown} {one if len(names) == 1 else many}"


def _of_steps(steps: Iterable[GroupStep], now_ms: int) -> list[Episode]:
    began: dict[str, GroupStep] = {}
    found = []
    for step in steps:
        if step.began:
            began.setdefault(step.group, step)
            continue
        first = began.pop(step.group, step)
        generation = f"generation {step.generation}, " if step.generation >= 0 else ""
        text = f"rebalanced: {generation}{counted(step.member_count, 'member')}"
        found.append(Episode(f"{IN_BROKER} {step.group}", text, first.time_ms, step.time_ms, 0, lasts=False))
    for step in began.values():
        text = f"rebalances since generation {step.generation}"
        found.append(Episode(f"{IN_BROKER} {step.group}", text, step.time_ms, now_ms, 0, lasts=True))
    return found

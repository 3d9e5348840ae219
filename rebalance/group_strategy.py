"""Which strategy a group runs: worked out by each member from the registrations that it read. Pure.

A strategy is an assignor, who runs it (every member, or the leader, who writes the result down), and how partitions
change hands: *eager* (each member stops and releases everything, then claims) or *incremental* (only what moves stops).
Tests: ``tests/rebalance/test_group_strategy.py``.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.rebalance.assignment import Assignor
from kafka_zk.rebalance.range import RangeAssignor
from kafka_zk.rebalance.roundrobin import RoundRobinAssignor
from kafka_zk.rebalance.sticky import StickyAssignor
from kafka_zk.registry.consumers import Member


class AssignmentStrategy(NamedTuple):
    """One entry of the table. Only a leader keeps the places of static members who are away."""

    name: str
    assignor: Assignor
    by_leader: bool = False
    incremental: bool = False


RANGE = AssignmentStrategy("range", RangeAssignor())
ROUNDROBIN = AssignmentStrategy("roundrobin", RoundRobinAssignor())

STRATEGIES: Mapping[str, AssignmentStrategy] = {
    strategy.name: strategy
    for strategy in (
        RANGE,
        ROUNDROBIN,
        AssignmentStrategy("sticky", StickyAssignor(), by_leader=True),
        AssignmentStrategy("cooperative-sticky", StickyAssignor(), by_leader=True, incremental=True),
    )
}


class Choice(NamedTuple):
    """``warning``: a fall-back that an operator should know of."""

    strategy: AssignmentStrategy
    why: str
    warning: bool = False


def choose(members: Mapping[str, Member]) -> Choice:
    """The group's strategy; it depends on the registrations alone, so all members that read the same ones agree.

    A member that announces none of ours (Kafka's consumer, say) can only be eager, and what it runs is not known. Then
    it is ``range``, the default of Kafka's consumer, unless ``roundrobin`` is all that ours announce. Otherwise each
    member votes for the first strategy in its list that all announce; the most votes win, ties are broken by name.
    Where there is none, it is ``range``.
    """
    lists = [member.registration.strategies for member in members.values()]
    for consumer_id, member in sorted(members.items()):
        if not member.registration.strategies:
            classic = ROUNDROBIN if {announced for announced in lists if announced} == {(ROUNDROBIN.name,)} else RANGE
            return Choice(classic, f"falls back to eager {classic.name}: {consumer_id} announces no strategy", True)
    common = {name for name in STRATEGIES if all(name in announced for announced in lists)}
    if not common:
        return Choice(RANGE, f"falls back to eager {RANGE.name}: no strategy is announced by all members", True)
    votes = [next(name for name in announced if name in common) for announced in lists]
    name = min(common, key=lambda each: (-votes.count(each), each))
    return Choice(STRATEGIES[name], f"{name} is announced by all {len(lists)} members")


def leader(members: Mapping[str, Member]) -> str | None:
    """The oldest of our members (smallest czxid), None if there is none."""
    ours = {name: member for name, member in members.items() if member.registration.strategies}
    return min(ours, key=lambda name: ours[name].czxid, default=None)


def keeps_places(strategies: Iterable[str]) -> bool:
    """Whether a group may run one of these and keep the places of static members."""
    return any(STRATEGIES[name].by_leader for name in strategies)

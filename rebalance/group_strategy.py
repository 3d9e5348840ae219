"""Which strategy a group runs: every member computes it from the registrations that it read. Pure.

A strategy consists of an assignor, who runs it (every member, or the leader, who writes the result to ZooKeeper), and
how partitions change hands: *eager* (each member stops and releases everything, then claims) or *incremental* (only
moving partitions stop). Tests: ``tests/rebalance/test_group_strategy.py``.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.rebalance.assignment import Assignor
from kafka_zk.rebalance.range import RangeAssignor
from kafka_zk.rebalance.roundrobin import RoundRobinAssignor
from kafka_zk.rebalance.sticky import StickyAssignor
from kafka_zk.registry.consumers import Member


class AssignmentStrategy(NamedTuple):
    """One entry of ``STRATEGIES``.

    ``by_leader``: the leader assigns and reserves the partitions of absent static members; else every member computes
    the assignment. ``incremental``: only moving partitions stop.
    """

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
    """The group's strategy. ``why``: a reason for observers. ``warning``: a fall-back that operators should notice."""

    strategy: AssignmentStrategy
    why: str
    warning: bool = False


def choose(members: Mapping[str, Member]) -> Choice:
    """The group's strategy. It depends on the registrations alone, so all members that read the same ones agree.

    A member that announces none of our strategies (such as Kafka's consumer) can only be eager, and its strategy is
    unknown. The group then runs ``range``, the default of Kafka's consumer, or ``roundrobin`` if that is the only
    strategy that the others announce. Otherwise each member votes for the first strategy in its list that all members
    announce. Most votes win; ties are broken by name. Without a common strategy the group runs ``range``.
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
    """The oldest of our members (smallest czxid); None if there is none."""
    ours = {name: member for name, member in members.items() if member.registration.strategies}
    return min(ours, key=lambda name: ours[name].czxid, default=None)


def keeps_places(strategies: Iterable[str]) -> bool:
    """True if one of these strategies reserves the partitions of absent static members."""
    return any(STRATEGIES[name].by_leader for name in strategies)

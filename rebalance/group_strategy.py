"""Every member computes its group's strategy from the registrations that it read. Pure.

A strategy defines the assignor, who runs it (every member, or the leader, who writes the result to ZooKeeper), and how
partitions move: *eager* (each member stops and releases everything, then claims) or *incremental* (only moving
partitions stop).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.rebalance.assignment import Assignor
from kafka_zk.rebalance.range import RangeAssignor
from kafka_zk.rebalance.roundrobin import RoundRobinAssignor
from kafka_zk.rebalance.sticky import StickyAssignor
from kafka_zk.rebalance.weighted import WeightedAssignor
from kafka_zk.registry.consumers import Member


class AssignmentStrategy(NamedTuple):
    """``by_leader``: the leader computes the assignment and reserves the partitions of absent static members; otherwise
    every member computes it. ``incremental``: only moving partitions stop.
    """

    name: str
    assignor: Assignor
    by_leader: bool = False
    incremental: bool = False


RANGE = AssignmentStrategy("range", RangeAssignor())
ROUNDROBIN = AssignmentStrategy("roundrobin", RoundRobinAssignor())
WEIGHTED = AssignmentStrategy("weighted", WeightedAssignor(), by_leader=True, incremental=True)

STRATEGIES: Mapping[str, AssignmentStrategy] = {
    strategy.name: strategy
    for strategy in (
        RANGE,
        ROUNDROBIN,
        AssignmentStrategy("sticky", StickyAssignor(), by_leader=True),
        AssignmentStrategy("cooperative-sticky", StickyAssignor(), by_leader=True, incremental=True),
        WEIGHTED,
    )
}


class Choice(NamedTuple):
    """``why``: the reason, for observers. ``warning``: True for a fall-back that operators should notice."""

    strategy: AssignmentStrategy
    why: str
    warning: bool = False


def choose(members: Mapping[str, Member]) -> Choice:
    """Members that read the same registrations choose the same strategy.

    A member that announces no strategies (such as Kafka's consumer) runs an unknown eager strategy. The group then runs
    ``range``, the default of Kafka's consumer, or ``roundrobin`` if that is the only strategy that the others announce.
    Otherwise each member votes for the first strategy in its list that all members announce. Most votes win; ties are
    broken by name. Without a common strategy the group runs ``range``.
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
    """The oldest member (smallest czxid) that announces strategies; None if no member does."""
    ours = {name: member for name, member in members.items() if member.registration.strategies}
    return min(ours, key=lambda name: ours[name].czxid, default=None)


def keeps_places(strategies: Iterable[str]) -> bool:
    """True if a strategy reserves the partitions of absent static members."""
    return any(STRATEGIES[name].by_leader for name in strategies)

"""Which strategy a group runs: worked out by each member from the registrations that it read. Pure.

A strategy is an assignor, who runs it (every member, or the leader, who writes the result down), and how partitions
change hands: *eager* (everybody stops and releases everything, then claims) or *incremental* (only what moves stops).
Tests: ``tests/rebalance/test_group_strategy.py``.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rebalance.assignment import Assignor
from rebalance.range import RangeAssignor
from rebalance.roundrobin import RoundRobinAssignor
from rebalance.sticky import StickyAssignor
from registry.consumers import Member


class Strategy(NamedTuple):
    """One entry of the table."""

    name: str
    assignor: Assignor
    by_leader: bool = False
    incremental: bool = False


RANGE = Strategy("range", RangeAssignor())

STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        RANGE,
        Strategy("roundrobin", RoundRobinAssignor()),
        Strategy("sticky", StickyAssignor(), by_leader=True),
        Strategy("cooperative-sticky", StickyAssignor(), by_leader=True, incremental=True),
    )
}


class Choice(NamedTuple):
    """``warning``: a fall-back that somebody should know of."""

    strategy: Strategy
    why: str
    warning: bool = False


def choose(members: Mapping[str, Member], own: Sequence[str]) -> Choice:
    """The group's strategy.

    A member that announces none of ours (Kafka's consumer, say) can only be eager, and what it runs is not known: then
    this member takes the first of its ``own`` that Kafka has. Otherwise each member votes for the first strategy in its
    list that all announce; the most votes win, ties are broken by name.
    """
    for consumer_id, member in sorted(members.items()):
        if not member.registration.strategies:
            classic = _classic(own)
            return Choice(classic, f"falls back to eager {classic.name}: {consumer_id} announces no strategy", True)
    lists = [member.registration.strategies for member in members.values()]
    common = {name for name in STRATEGIES if all(name in announced for announced in lists)}
    if not common:
        classic = _classic(own)
        return Choice(classic, f"falls back to eager {classic.name}: no strategy is announced by all members", True)
    votes = [next(name for name in announced if name in common) for announced in lists]
    name = min(common, key=lambda each: (-votes.count(each), each))
    return Choice(STRATEGIES[name], f"{name} is announced by all {len(lists)} members")


def leader(members: Mapping[str, Member]) -> str | None:
    """The oldest of our members (smallest czxid), None if there is none."""
    ours = {name: member for name, member in members.items() if member.registration.strategies}
    return min(ours, key=lambda name: ours[name].czxid, default=None)


def _classic(own: Sequence[str]) -> Strategy:
    """What Kafka's consumer would run with this list."""
    return next((STRATEGIES[name] for name in own if name in STRATEGIES and not STRATEGIES[name].by_leader), RANGE)

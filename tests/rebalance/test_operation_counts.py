"""ZooKeeper requests of all members together for one join, one leave and one kill.

If a leader assigns, each member only reads the new member and the new assignment, so the cost is linear in the group's
size. With eager strategies, all members also release and claim all partitions. ``python -m
tests.rebalance.test_operation_counts`` prints the table.
"""

import sys
from collections import Counter
from typing import NamedTuple

import pytest

from tests.rebalance.world import Group

SIZES = (3, 10, 50)
TESTED_SIZES = (3, 10, 25)
PARTITIONS = 60
LEADER_ASSIGNED = ("sticky", "cooperative-sticky")


class Costs(NamedTuple):
    """Requests of all members (heartbeats not counted)."""

    join: int
    leave: int
    kill: int


def requests(group: Group) -> Counter[str]:
    total: Counter[str] = Counter()
    for process in group.processes:
        total.update({kind: count for kind, count in process.client.counts.items() if kind != "ping"})
    return total


def costs(strategy: str, size: int, partitions: int = PARTITIONS) -> Costs:
    """The requests when one member joins a group of ``size`` members, one leaves it, and one is killed."""
    group = Group({"t": partitions}, size)
    group.tick_s = 2.0  # nothing is to be consumed
    for process in group.processes:
        process.client.counts.clear()
    for number in range(size):
        group.join(f"m{number:03}", [strategy])
    group.until_served()
    group.settle(2000)
    spent = []
    for change in ("join", "leave", "kill"):
        before = requests(group)
        if change == "join":
            group.join("new", [strategy])
        elif change == "leave":
            group.live[size // 2].leave()
        else:
            group.live[size // 3].kill()
        group.settle(9000 if change == "kill" else 2000)
        spent.append((requests(group) - before).total())
    group.close()
    return Costs(*spent)


@pytest.mark.parametrize(("strategy", "per_member"), [("cooperative-sticky", 5), ("sticky", 10)])
def test_a_change_costs_a_number_of_requests_linear_in_the_members(strategy: str, per_member: int) -> None:
    """Each additional member adds a constant number of requests (read the new member, read the assignment, one
    batch)."""
    small, medium, large = (costs(strategy, size) for size in TESTED_SIZES)
    for before, after, added in ((small, medium, 7), (medium, large, 15)):
        for fewer, more in zip(before, after, strict=True):
            assert more <= fewer + per_member * added, (small, medium, large)


if __name__ == "__main__":
    print("strategy              members     join    leave     kill")
    for name in sys.argv[1:] or ("range", "roundrobin", *LEADER_ASSIGNED):
        for members in SIZES:
            print(f"{name:20}  {members:7}  {costs(name, members)}")

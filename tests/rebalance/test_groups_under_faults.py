"""Groups under faults, by seed: each partition has one owner at a time, offsets never go back, every record is
delivered at least once, and the group comes to rest.
"""

from collections.abc import Iterator, Sequence

import pytest

from tests.rebalance.faults import Faults
from tests.rebalance.world import Group

RANGE, ROUNDROBIN, STICKY = ("range",), ("roundrobin", "range"), ("sticky", "range")
COOPERATIVE = ("cooperative-sticky", "range")
GROUPS: dict[str, Sequence[Sequence[str]]] = {
    "range": [RANGE],
    "roundrobin": [ROUNDROBIN],
    "sticky": [STICKY],
    "cooperative": [COOPERATIVE],
    "mixed": [RANGE, ROUNDROBIN, STICKY, COOPERATIVE],
}
STRIKES = 25
REST_MS = 40_000
"""Covers two ghosts in a row, the backoff of claims, and the remaining deliveries."""


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A failure that was only logged counts as a failure."""
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def storm(group: Group, faults: Faults) -> None:
    """Some members join, many faults strike, then the group rests: every partition is owned, balanced and delivered."""
    for _ in range(3):
        faults.join()
    for _ in range(STRIKES):
        group.produce(group.random.randint(0, 5))
        faults.strike()
        group.settle(group.random.uniform(0, 2500))
    group.scheduler.run_until(lambda: group.zookeeper.running)
    group.settle(12_000)  # the lasting faults end
    faults.heal()
    group.produce(3)
    group.until_served(REST_MS)
    group.until_consumed(REST_MS)
    group.close()


@pytest.mark.parametrize("kind", GROUPS)
def test_a_group_survives_whatever_happens(kind: str, campaign_seed: int) -> None:
    group = Group({"t": 5, "u": 2}, campaign_seed)
    storm(group, Faults(group, GROUPS[kind]))
    assert not group.violations()


def test_a_group_of_static_members_survives_whatever_happens(campaign_seed: int) -> None:
    group = Group({"t": 5, "u": 2}, campaign_seed)
    storm(group, Faults(group, [STICKY, COOPERATIVE], static=True))
    assert not group.violations()


def test_a_group_with_old_consumers_delivers_everything(campaign_seed: int) -> None:
    """Old consumers have no fence, so this is all that the group promises."""
    group = Group({"t": 5, "u": 2}, campaign_seed)
    old = [group.join_old("x"), group.join_old("y")]
    faults = Faults(group, GROUPS["mixed"])
    for kind in ("grow", "brokers", "restart ZooKeeper", "lossy network"):
        del faults.kinds[kind]
    group.scheduler.clock.callLater(group.random.uniform(5, 20), old[0].kill)
    group.scheduler.clock.callLater(group.random.uniform(5, 30), old[1].leave)
    storm(group, faults)
    assert not [broken for broken in group.violations() if "never" in broken]

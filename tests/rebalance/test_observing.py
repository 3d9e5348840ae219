"""The events that a member sends to its observers; a failing observer cannot harm the member."""

import threading

import pytest

from kafka_zk.base.events import Event
from kafka_zk.rebalance import events
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.registry.znodes import consumers as znodes
from tests.rebalance.world import Group, Process


def test_an_observer_that_fails_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, a trace on a full disk: members join, deliver and hand over as without an observer."""
    seen: list[Event] = []

    def full_disk(_: Process, event: Event) -> None:
        seen.append(event)
        raise OSError("no space left on device")

    monkeypatch.setattr(Process, "_observed", full_disk)
    group = Group({"t": 4})
    first, second = group.join_all("ab")
    assert seen and group.is_served() and group.counts == [2, 2]
    group.produce(10)
    group.scheduler.run(first.leave())
    group.until_consumed()
    assert second.owned == sorted(group.log_ends)


def test_a_member_with_records_to_deliver_reports_the_end_of_its_lease_once() -> None:
    """Any thread may check the lease. The check reports no event, because observers are called only on the reactor
    thread."""
    group = Group({"t": 2})
    (member,) = group.join_all("a")
    group.settle(600)
    member.client.cut(silent=True)
    answers: list[bool] = []
    while member.driver.lease.may_act():
        group.settle(10)
    asking = threading.Thread(target=lambda: answers.append(member.driver.lease.may_act()))
    asking.start()
    asking.join()
    assert answers == [False] and not member.suspended and not member.named(events.LeaseEnded)
    member.driver.lease.report_if_ended()
    member.driver.lease.report_if_ended()
    assert len(member.named(events.LeaseEnded)) == 1
    member.client.heal()
    group.settle(3000)
    assert member.driver.lease.may_act() and len(member.named(events.LeaseEnded)) == 1


@pytest.mark.parametrize(("retries", "warned"), [(4, False), (3, True)])
def test_settings_under_which_old_consumers_would_give_up_are_warned_of(retries: int, warned: bool) -> None:
    """The session is 6 s."""
    group = Group({"t": 1})
    (member,) = group.join_all("a", config=GroupConfig(rebalance_backoff_ms=2000, rebalance_max_retries=retries))
    assert [event.cause.partition(":")[0] for event in member.named(events.SettingsDoubtful)] == warned * [
        "rebalance.max.retries x rebalance.backoff.ms (6000 ms) is not above the session timeout (6000 ms)"
    ]


def test_a_claim_is_reported_with_its_zxid() -> None:
    """The zxid is that of the owner znode's creation, so that claims can be ordered with events of other members."""
    group = Group({"t": 2})
    first, second = group.join_all("ab")
    (taken_over,) = first.owned
    group.scheduler.run(first.leave())
    group.until_served()
    claim = second.named(events.Claimed)[-1]
    stat = group.zookeeper.tree.exists(znodes.owner_path("g", *taken_over))
    assert set(claim.offsets) == {taken_over} and stat is not None and claim.zxid == stat.czxid

"""The end of a member's lease stops its commits, and is reported once."""

import pytest

from kafka_zk.rebalance import events
from kafka_zk.rebalance.ownership import IN_DOUBT
from tests.rebalance.world import Group


def test_commits_after_the_end_of_the_lease_report_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"t": 1})
    (member,) = group.join_all("a")
    (tp,) = member.owned
    run = group.scheduler.run

    monkeypatch.setattr(member.client, "lease_held", lambda: False)
    for offset in (1, 2):
        assert run(member.driver.commit({tp: offset})) == {tp: IN_DOUBT}
    assert len(member.named(events.LeaseEnded)) == 1

    monkeypatch.setattr(member.client, "lease_held", lambda: True)
    assert run(member.driver.commit({tp: 3})) == {tp: None}
    monkeypatch.setattr(member.client, "lease_held", lambda: False)
    run(member.driver.commit({tp: 4}))
    assert len(member.named(events.LeaseEnded)) == 2, "the lease was held in between"

"""What replication's promise allows when machines lose power, on constructed histories."""

from kafka_zk.base.types import TopicPartition
from tests.sim.power_losses import KNOWN_TO_CONTROLLERS_MS, PowerLosses

TP = TopicPartition("t", 0)
LOST_MS = 10.0
LATER_MS = LOST_MS + 2 * KNOWN_TO_CONTROLLERS_MS
LONG_AGO = {1: 0.0, 2: 0.0, 3: 0.0}


def led_by(leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> PowerLosses:
    made = PowerLosses()
    assert made.written(1.0, TP, leader, isr, LONG_AGO) == []
    return made


def test_a_leader_that_lost_power_where_another_member_did_not() -> None:
    losses = led_by(1)
    losses.power_lost(LOST_MS, 1)
    assert losses.written(LATER_MS, TP, 1, (1, 2, 3), {**LONG_AGO, 1: LOST_MS + 1}) == [
        f"{LATER_MS:.3f}: 1 leads {TP} after a power loss, and 2 has kept what it had",
        f"{LATER_MS:.3f}: 1 leads {TP} after a power loss, and 3 has kept what it had",
    ]


def test_another_member_leads_and_nothing_may_be_lost() -> None:
    losses = led_by(1)
    losses.power_lost(LOST_MS, 1)
    assert losses.written(LATER_MS, TP, 2, (2, 3), {**LONG_AGO, 1: LOST_MS + 1}) == []
    assert losses.excused_until_ms(TP) == -1


def test_who_has_joined_again_has_everything_again() -> None:
    losses = led_by(1)
    losses.power_lost(LOST_MS, 1)
    losses.written(LATER_MS, TP, 2, (2, 3), LONG_AGO)
    losses.written(LATER_MS + 1, TP, 2, (2, 3, 1), LONG_AGO)
    assert losses.written(LATER_MS + 2, TP, 1, (1,), {1: LOST_MS + 1}) == []
    assert losses.excused_until_ms(TP) == -1


def test_a_broker_may_lack_what_was_sent_before_its_power_loss() -> None:
    losses = led_by(1)
    losses.power_lost(LOST_MS, 2)
    assert losses.lost_since(LOST_MS - 1) == {2}
    assert losses.lost_since(LOST_MS + 1) == set()


def test_a_dead_broker_whose_session_goes_on_may_be_elected() -> None:
    """No controller can detect that the broker is dead."""
    losses = led_by(2)
    losses.power_lost(LOST_MS, 1)
    assert losses.written(LATER_MS, TP, 1, (1, 3), LONG_AGO) == []
    assert losses.excused_until_ms(TP) == -1


def test_no_other_member_is_there() -> None:
    """A member that registered too recently counts as absent, because not every controller knows it."""
    losses = led_by(1)
    losses.power_lost(LOST_MS, 1)
    assert losses.written(LATER_MS, TP, 1, (1,), {1: LOST_MS + 1, 2: LATER_MS - 1}) == []
    assert losses.excused_until_ms(TP) == LATER_MS


def test_all_machines_lose_power() -> None:
    losses = led_by(1)
    for broker_id in (1, 2, 3):
        losses.power_lost(LOST_MS, broker_id)
    assert losses.written(LATER_MS, TP, 2, (2,), dict.fromkeys((1, 2, 3), LOST_MS + 1)) == []
    assert losses.excused_until_ms(TP) == LATER_MS

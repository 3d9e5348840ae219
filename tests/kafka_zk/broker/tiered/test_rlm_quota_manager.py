"""How long copies and remote reads wait for their quota (KIP-956)."""

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.tiered.rlm_quota_manager import RLMQuotaManager
from kafka_zk.storage.files.config_table import LONG_MAX


class Limited:
    """A quota of 100 bytes per second, over windows of 11 s."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.limit = 100
        self.quota = RLMQuotaManager(self.clock, lambda: self.limit, QuotaWindow())
        assert self.quota.throttle_ms == 0


def test_nothing_waits_without_a_limit() -> None:
    limited = Limited()
    limited.limit = LONG_MAX
    limited.quota.record(1 << 40)
    assert limited.quota.throttle_ms == 0


def test_what_exceeds_a_window_is_paid_in_full() -> None:
    """Kafka forgets the excess after 11 s, so it copies large segments faster than the limit."""
    limited = Limited()
    limited.quota.record(1100 + 10_000)
    assert limited.quota.throttle_ms == 100_000
    limited.clock.advance(99)
    assert limited.quota.throttle_ms == 1000
    limited.clock.advance(1)
    assert limited.quota.throttle_ms == 0


def test_a_changed_limit_applies_to_what_was_copied_before() -> None:
    limited = Limited()
    limited.quota.record(1100 + 1000)
    limited.limit = 1000
    assert limited.quota.throttle_ms == 1000
    limited.limit = 50
    assert limited.quota.throttle_ms == 20_000


def test_a_wait_ends_with_the_debt_or_within_a_second_after_its_reason() -> None:
    limited = Limited()
    limited.quota.record(1100 + 250)
    over: list[bool] = []
    waits = [ensureDeferred(limited.quota.wait(lambda: bool(over))) for _ in range(2)]
    limited.clock.pump([0.5] * 4)
    assert not any(each.called for each in waits)
    limited.clock.advance(0.5)
    assert all(each.called for each in waits)
    limited.quota.record(10_000)
    wait = ensureDeferred(limited.quota.wait(lambda: bool(over)))
    over.append(True)
    limited.clock.advance(1)
    assert wait.called


def test_metrics_show_the_rate_and_the_waits() -> None:
    limited = Limited()
    assert (limited.quota.byte_rate, limited.quota.average_throttle_ms) == (0, 0)
    limited.quota.record(1100 + 100)
    assert limited.quota.byte_rate == 120
    assert limited.quota.note_throttle() == limited.quota.average_throttle_ms == 1000

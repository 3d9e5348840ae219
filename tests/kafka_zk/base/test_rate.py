"""Rates over a sliding window, with Apache Kafka 3.9.1's throttle times where a test says so."""

import random

import pytest

from kafka_zk.base.rate import MOST_THROTTLE_MS, QuotaWindow, Rate, SimpleRate

WINDOW = QuotaWindow(sample_count=3, sample_ms=1000)
KAFKA_DEFAULT = QuotaWindow()


def test_nothing_recorded_is_a_rate_of_nothing() -> None:
    assert SimpleRate(WINDOW).per_second(5) == 0


def test_the_first_second_counts_as_a_whole_one() -> None:
    """Without this rule, the first bytes would look like a flood."""
    rate = SimpleRate(WINDOW)
    rate.record(500, 100)
    assert rate.per_second(101) == 500
    assert rate.per_second(1100) == 500
    assert rate.per_second(2100) == 250


def test_the_rate_is_over_the_time_since_the_oldest_sample() -> None:
    rate = SimpleRate(WINDOW)
    for second in range(3):
        rate.record(600, second * 1000)
    assert rate.per_second(2000) == 900
    assert rate.per_second(3000) == 600


def test_a_sample_counts_while_its_last_event_lies_in_the_window() -> None:
    """The sample may have begun before the window."""
    rate = SimpleRate(WINDOW)
    rate.record(100, 0)
    rate.record(100, 900)
    rate.record(300, 1000)
    assert rate.per_second(3899) == pytest.approx(500 / 3.899)
    assert rate.per_second(3900) == pytest.approx(300 / 2.9)
    assert rate.per_second(4000) == 0


def test_a_steady_stream_shows_its_rate_for_ever() -> None:
    rate = SimpleRate(WINDOW)
    for now_ms in range(0, 60_000, 100):
        rate.record(70, now_ms)
    assert rate.per_second(60_000) == pytest.approx(700, rel=0.05)


def test_a_first_burst_is_spread_over_the_whole_window() -> None:
    """Observed in 3.9.1: with a quota of 10,000 a second, a burst of 150,111 bytes counts as 15,011 a second and is
    throttled for 5,011 ms.
    """
    rate = Rate(KAFKA_DEFAULT)
    rate.record(150_111, 500)
    assert rate.per_second(500) == pytest.approx(15_011.1)
    assert rate.throttle_ms(10_000, 500) == 5_011


def test_a_second_burst_adds_to_the_first() -> None:
    """Observed in 3.9.1: 19,995 ms after the second burst, which was sent as soon as the first throttle ended."""
    rate = Rate(KAFKA_DEFAULT)
    rate.record(150_111, 0)
    rate.record(150_111, 5_027)
    assert rate.throttle_ms(10_000, 5_027) == 19_995


def test_a_throttle_is_no_longer_than_an_answer_can_say() -> None:
    rate = Rate(KAFKA_DEFAULT)
    rate.record(10**12, 0)
    assert rate.throttle_ms(1, 0) == MOST_THROTTLE_MS


def test_no_throttle_at_the_bound() -> None:
    rate = Rate(KAFKA_DEFAULT)
    rate.record(100_000, 0)
    assert rate.throttle_ms(10_000, 0) <= 0
    assert rate.throttle_ms(10_000, 0, added=10) == 1


def test_after_the_throttle_the_rate_is_at_the_bound() -> None:
    rate = Rate(KAFKA_DEFAULT)
    rate.record(150_000, 0)
    wait_ms = rate.throttle_ms(10_000, 0)
    for elapsed_ms in range(0, wait_ms, 100):
        assert rate.throttle_ms(10_000, elapsed_ms) > 0
    assert rate.throttle_ms(10_000, 11_000) <= 0


def test_what_was_counted_can_be_taken_back() -> None:
    rate = Rate(WINDOW)
    rate.record(70, 0)
    rate.record(-70, 1500)
    assert rate.total == 0


def test_an_idle_window_is_forgotten() -> None:
    rate = Rate(WINDOW)
    rate.record(500, 0)
    rate.forget_old(2_999)
    assert not rate.is_empty
    rate.forget_old(3_000)
    assert [rate.is_empty, rate.total] == [True, 0]


def test_the_sum_equals_that_of_all_samples_at_any_time() -> None:
    """The oracle is a plain list of samples."""
    randomness = random.Random(7)
    rate, samples, now_ms = Rate(WINDOW), list[list[float]](), 0
    for _ in range(2_000):
        now_ms += randomness.choice([0, 3, 300, 1000, 1700, 5000])
        value = randomness.randrange(1, 1000)
        if not samples or now_ms - samples[-1][0] >= 1000:
            samples.append([now_ms, now_ms, 0])
        samples[-1][1:] = [now_ms, samples[-1][2] + value]
        rate.record(value, now_ms)
        samples = [sample for sample in samples if now_ms - sample[1] < 3000]
        rate.forget_old(now_ms)
        assert rate.total == sum(sample[2] for sample in samples)
        assert rate.elapsed_ms(now_ms) == now_ms - samples[0][0]



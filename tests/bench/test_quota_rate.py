"""The bench of quotas counts bytes after the first window, and none after the end."""

from tests.bench.quota_rate import WINDOW_S, Sample, rate


def test_the_first_window_and_what_comes_late_do_not_count() -> None:
    samples = [Sample(0, 900), Sample(WINDOW_S - 0.1, 900), Sample(WINDOW_S, 40), Sample(WINDOW_S + 1.9, 20)]
    assert rate([*samples, Sample(WINDOW_S + 2, 900)], 2) == 30

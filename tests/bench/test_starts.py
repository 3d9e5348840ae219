"""The report on a series of starts."""

import pytest

from tests.bench import starts


@pytest.mark.parametrize(("count", "place"), [(1, 1), (10, 10), (99, 99), (100, 99), (200, 198)])
def test_the_99th_percentile_is_exceeded_by_one_percent(count: int, place: int) -> None:
    assert starts.percentile_99(range(count, 0, -1)) == place


def test_a_wait_that_one_start_in_eight_meets_is_reported() -> None:
    lines = list(starts.report([(1.0 + 2.0 * (number % 8 == 0), 1.0, 2.0) for number in range(100)]))
    assert [line.endswith("more than 1.3") for line in lines[1:]] == [True, False, False]
    assert lines[1].split() == ["ZooKeeper", "1.00", "s", "3.00", "s", "3.00", "s", "3.00", "more", "than", "1.3"]

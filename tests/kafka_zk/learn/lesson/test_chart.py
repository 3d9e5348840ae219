"""Lag as bars."""

from kafka_zk.learn.lesson.chart import bar, lag_chart, lags


def test_lag_is_what_was_written_and_not_handed_out() -> None:
    """The lag is computed for each time, whatever the order of the records."""
    assert lags([3.0, 1.0, 2.0], [2.5], [0.5, 1.5, 2.6, 9.0]) == [0, 1, 1, 2]
    assert lags([], [], [1.0]) == [0]


def test_bars_grow_by_eighths_and_never_beyond_their_width() -> None:
    """An empty value gives an empty bar."""
    assert [bar(value, 8, 2) for value in (0, 1, 4, 8, 80)] == ["", "▎", "█", "██", "██"]
    assert bar(0, 0, 5) == ""


def test_two_groups_stand_side_by_side() -> None:
    """There is one line per time; a line is marked where an event happened."""
    lines = list(lag_chart({"eager": [0, 8], "cooperative": [0, 4]}, [5, 6], [-10, 0], {1: "kill"}, 8))
    assert [line.split() for line in lines] == [
        ["ms", "in", "lag,", "eager", "lag,", "cooperative"],
        ["-10", "5", "0", "0"],
        ["0", "6", "████████", "8", "████", "4", "←", "kill"],
    ]

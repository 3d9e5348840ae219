"""The lag around several kills, aligned with each other."""

from kafka_zk.learn.lesson.kills import BIN_MS, TIMES_MS, Kill, Written, average_input, usual_lag

KILLS = [Kill(killed_s, frozenset({1})) for killed_s in (10.0, 20.0, 30.0)]


def test_it_is_the_median_of_the_partitions_that_stay() -> None:
    """The dead member's partition does not count, nor does a kill during which the machine was busy."""
    written = [Written(partition, kill.killed_s + 0.010) for kill in KILLS for partition in (0, 0, 1)]
    late_s = (0.050, 0.050, 5.0)
    firsts = {
        (0, 2 * number + each): kill.killed_s + late_s[number] for number, kill in enumerate(KILLS) for each in (0, 1)
    }
    lag = dict(zip(TIMES_MS, usual_lag(KILLS, written, firsts), strict=True))
    assert [lag[time_ms] for time_ms in (0, 20, 40, 60, 80)] == [0, 2, 2, 0, 0]


def test_what_came_in_is_counted_for_each_time() -> None:
    """Each value counts the records since the previous time."""
    written = [Written(0, kill.killed_s + 0.001 * each + 0.0005) for kill in KILLS for each in range(-500, 1_000)]
    assert set(average_input(KILLS, written)) == {BIN_MS}

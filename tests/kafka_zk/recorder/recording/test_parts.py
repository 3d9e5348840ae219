"""Parts are dropped when all their entries are too old, whatever the clocks of processes say."""

from random import Random

import pytest

from kafka_zk.recorder.recording.parts import MOST_ENTRIES, PART_COUNT, Part, Parts

PRESENT_MS = 1 << 50


def taken(keep_ms: int, times_ms: list[int]) -> Parts:
    parts = Parts(keep_ms)
    for seq, time_ms in enumerate(times_ms, 1):
        parts.take(seq, seq, time_ms, PRESENT_MS)
    return parts


def test_a_part_ends_after_its_share_of_the_time() -> None:
    parts = taken(64_000, [0, 999, 1_000, 1_999, 9_000]).all
    assert parts == (Part(1, 0, 999), Part(3, 1_000, 1_999), Part(5, 9_000, 9_000))


def test_a_part_has_a_bounded_number_of_entries() -> None:
    firsts = [part.first for part in taken(64_000, [5] * (MOST_ENTRIES + 1)).all]
    assert firsts == [1, MOST_ENTRIES + 1]


def test_only_what_is_older_than_that_is_dropped_and_at_most_one_part_of_it_is_left() -> None:
    random, keep_ms = Random(1), 6_400
    parts, times_ms = Parts(keep_ms), [0]
    first = 1
    for seq in range(1, 3_000):
        times_ms.append(times_ms[-1] + random.choice((0, 1, 20, 90, 90, 700)))
        parts.take(seq, seq, times_ms[seq], PRESENT_MS)
        kept = parts.drop(99)
        first = first if kept is None else kept.first
        assert all(each < times_ms[seq] - keep_ms for each in times_ms[1:first])
        assert times_ms[first] >= times_ms[seq] - keep_ms - keep_ms // PART_COUNT
    assert first > 2_000


def test_after_a_pause_everything_older_is_dropped() -> None:
    parts = taken(64_000, [0, 500, 70_000])
    assert (parts.drop(9), parts.all) == (Part(3, 70_000, 70_000), (Part(3, 70_000, 70_000),))
    assert parts.drop(9) is None


def test_at_most_the_given_number_is_dropped_at_once() -> None:
    parts = taken(64_000, [*range(0, 20_000, 1_000), 200_000])
    assert [kept and kept.first for kept in (parts.drop(1), parts.drop(3), parts.drop(99))] == [2, 5, 21]


@pytest.mark.parametrize("wrong_ms", [PRESENT_MS * 2, 0])
def test_the_clock_of_one_process_drops_nothing_and_keeps_nothing(wrong_ms: int) -> None:
    """The second entry is from a process whose clock is far ahead or behind."""
    parts, present_ms = Parts(64_000), PRESENT_MS
    for seq in range(1, 5):
        parts.take(seq, seq, wrong_ms if seq == 2 else present_ms, present_ms)
        assert parts.drop(9) is None
        present_ms += 1_000
    present_ms += 64_000
    parts.take(5, 5, present_ms, present_ms)
    kept = parts.drop(9)
    assert kept is not None and kept.first == 5


def test_a_recorder_whose_clock_was_ahead_drops_again_when_it_is_right() -> None:
    """The clocks of the recorder and of a process were ahead, so entries have times in the future."""
    parts = Parts(64_000)
    parts.take(1, 1, 2 * PRESENT_MS, 2 * PRESENT_MS)
    for seq in range(2, 102):
        parts.take(seq, seq, PRESENT_MS + 1_000 * seq, PRESENT_MS + 1_000 * seq)
        parts.drop(2)
    assert [parts.all[0].first, parts.all[-1].first] == [37, 101]


def test_what_was_known_goes_on() -> None:
    """An earlier recorder was killed; the entries of its last part are taken again."""
    times_ms = [0, 500, 1_200, 1_300, 2_300]
    whole, parts = taken(64_000, times_ms), taken(64_000, times_ms[:3])
    again = Parts(64_000, parts.all)
    for seq in range(parts.all[-1].first, 6):
        again.take(seq, seq, times_ms[seq - 1], PRESENT_MS)
    assert again.all == whole.all

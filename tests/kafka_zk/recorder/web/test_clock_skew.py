"""The cluster's clock is compared with this machine's only when a transaction was just written."""

import pytest

from kafka_zk.recorder.web.clock_skew import ClockSkew
from kafka_zk.recorder.zookeeper_files.transaction_log import Transaction

NOW_MS = 10_000_000
POLL_MS = 100


def told(skew: ClockSkew, ahead_ms: list[int | None], *, every_ms: int = POLL_MS, zxid: int = 1) -> list[int]:
    """The skew after each read; ``ahead_ms``: the difference of a read's last transaction from now."""
    found = []
    for number, each in enumerate(ahead_ms):
        now_ms = NOW_MS + number * every_ms
        skew.step([] if each is None else [Transaction(zxid, now_ms + each, 7, ())], now_ms, is_current=True)
        found.append(skew.skew_ms)
    return found


def test_the_first_read_finds_what_is_old() -> None:
    assert told(ClockSkew(), [-9_000_000, -200, 0]) == [0, 0, 0]


def test_a_clock_that_is_ahead_is_believed_at_once() -> None:
    """No old transaction can be from the future. A difference of less than three seconds is ignored."""
    assert told(ClockSkew(), [0, 60_000, 60_050, None, 59_900]) == [0, 60_000, 60_050, 60_050, 60_050]
    assert told(ClockSkew(), [0, 2_900]) == [0, 0]


def test_a_clock_that_is_behind_is_believed_if_reads_agree_for_seconds() -> None:
    """One old transaction may be read late, and a new one shows at once that the others were old."""
    skew = ClockSkew()
    assert told(skew, [0, -600_000, *[None] * 60, -600_000]) == [0] * 63
    assert told(ClockSkew(), [0, *[-600_000] * 60])[-1] == -600_000
    assert told(ClockSkew(), [0, *[-600_000] * 60, -100])[-1] == 0
    assert set(told(ClockSkew(), [0, *[-600_000, -100] * 100])) == {0}


def test_a_log_that_is_still_being_copied_is_no_clock() -> None:
    """Each read is slightly newer than the previous one."""
    copied: list[int | None] = [-600_000 + each * 400 for each in range(100)]
    assert set(told(ClockSkew(), [0, *copied])) == {0}


def test_what_is_read_after_a_pause_says_nothing() -> None:
    """The reactor was blocked, so that every read is late, or the source could not be read."""
    assert set(told(ClockSkew(), [0, *[-600_000] * 100], every_ms=5_000)) == {0}
    skew = ClockSkew()
    for number in range(100):
        skew.missed()
        now_ms = NOW_MS + number * POLL_MS
        skew.step([Transaction(1, now_ms - 600_000, 7, ())], now_ms, is_current=True)
    assert skew.skew_ms == 0


@pytest.mark.parametrize("is_current", [True, False])
def test_a_source_that_is_not_current_says_nothing(is_current: bool) -> None:
    skew = ClockSkew()
    for number in range(3):
        now_ms = NOW_MS + number * POLL_MS
        skew.step([Transaction(1, now_ms + 60_000, 7, ())], now_ms, is_current=is_current)
    assert bool(skew.skew_ms) is is_current


def test_a_watched_deletion_has_this_machines_time() -> None:
    """Later transactions also have it until the cluster's clock has passed it, because their times never decrease."""
    skew = ClockSkew()
    assert told(skew, [0, *[-600_000] * 60])[-1] == -600_000
    now_ms = NOW_MS + 61 * POLL_MS
    skew.step([Transaction(0, now_ms, 0, ()), Transaction(9, now_ms, 0, ())], now_ms, is_current=True)
    skew.step([Transaction(10, now_ms, 0, ())], now_ms + POLL_MS, is_current=True)
    assert skew.skew_ms == -600_000

"""The lag of groups at any moment, with the age of each number."""

from typing import Any

import pytest

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.samples import Samples, Since
from kafka_zk.recorder.web import lag_table as module
from kafka_zk.recorder.web.api import BadRequest, RecordingApi
from kafka_zk.recorder.web.lag_table import UNKNOWN_SHOWN_MS, lag_table

OFFSET, END = "committed board: t-0", "end t-0"


def sampled(*samples: tuple[int, dict[str, int | None]]) -> Samples:
    """Samples with a time and the values that were known then."""
    found = Recording().samples
    for time_ms, values in samples:
        found.add(time_ms, values)
    return found


def the_row(samples: Samples, time_ms: int) -> dict[str, Any]:
    [row] = lag_table(samples, time_ms, "")["rows"]
    return dict(row)


def test_the_first_record_that_was_not_committed_gives_the_age_of_the_lag() -> None:
    samples = sampled(
        (1_000, {OFFSET: 10, END: 10}),
        (2_000, {END: 12}),
        (3_000, {OFFSET: 12, END: 15}),
        (9_000, {END: 20}),
    )
    row = the_row(samples, 9_500)
    assert (row["group"], row["partition"], row["committed"], row["end"], row["lag"]) == ("board", "t-0", 12, 20, 8)
    assert (row["unchanged_ms"], row["behind_ms"]) == (6_500, 6_500)
    assert row["unchanged_is_exact"] and row["behind_is_exact"]
    earlier = the_row(samples, 2_500)
    assert (earlier["lag"], earlier["unchanged_ms"], earlier["behind_ms"]) == (2, 1_500, 500)
    assert not earlier["unchanged_is_exact"], "the group may have committed before the recording began"


def test_a_group_that_has_read_everything_has_no_unread_record() -> None:
    row = the_row(sampled((1_000, {OFFSET: 10, END: 10})), 60_000)
    assert (row["lag"], row["behind_ms"], row["unchanged_ms"]) == (0, None, 59_000)


def test_a_lag_from_before_the_recording_is_at_least_as_old() -> None:
    row = the_row(sampled((1_000, {OFFSET: 3, END: 10}), (4_000, {END: 11})), 5_000)
    assert (row["lag"], row["behind_ms"], row["behind_is_exact"]) == (8, 4_000, False)


def test_an_interruption_does_not_make_an_offset_young() -> None:
    samples = sampled((1_000, {OFFSET: 9, END: 9}), (2_000, {OFFSET: 5}), (3_000, {OFFSET: None}), (8_000, {OFFSET: 5}))
    assert the_row(samples, 9_000)["unchanged_ms"] == 7_000
    assert samples.within_since(OFFSET, 9_000, 5, 5) == Since(2_000, is_exact=True)
    assert samples.within_since(OFFSET, 9_000, 6, 9) is None


def test_what_is_unknown_has_no_number_but_says_since_when() -> None:
    samples = sampled((1_000, {OFFSET: 5, END: 9}), (2_000, {END: None}), (3_000, {OFFSET: None}))
    leaderless, unanswered = the_row(samples, 2_500), the_row(samples, 3_500)
    assert (leaderless["committed"], leaderless["end"], leaderless["lag"], leaderless["unknown_ms"]) == (
        5,
        None,
        None,
        500,
    )
    assert (unanswered["committed"], unanswered["lag"], unanswered["unknown_ms"]) == (None, None, 500)
    assert lag_table(samples, 500, "") == {"count": 0, "is_whole": True, "rows": []}, "nothing was known yet"
    assert lag_table(samples, 3_001 + UNKNOWN_SHOWN_MS, "")["rows"] == [], "the group was deleted long ago"


def test_the_largest_lags_are_sent_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    values: dict[str, int | None] = {f"committed g: t-{number}": 0 for number in range(12)}
    values |= {f"end t-{number}": number for number in range(12)} | {"committed other: u-0": 1, "end u-0": 1}
    told = lag_table(sampled((1, values)), 2, "")
    assert (told["count"], [row["partition"] for row in told["rows"]]) == (13, ["t-10", "t-11"])
    assert [row["partition"] for row in lag_table(sampled((1, values)), 2, "u-")["rows"]] == ["u-0"]


def test_the_filter_finds_what_is_beyond_the_limit_which_the_answer_admits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 2)
    samples = sampled((1, {f"committed g{number}: t-0": 0 for number in range(5)}))
    told = lag_table(samples, 2, "")
    assert (told["count"], told["is_whole"]) == (2, False)
    told = lag_table(samples, 2, "g4")
    assert ([row["group"] for row in told["rows"]], told["is_whole"]) == (["g4"], True)


def test_an_offset_beyond_the_end_has_no_lag_but_both_numbers() -> None:
    """The page names it, because the topic may have been recreated."""
    row = the_row(sampled((1_000, {OFFSET: 100, END: 100}), (2_000, {END: 5})), 60_000)
    assert (row["committed"], row["end"], row["lag"], row["unchanged_ms"]) == (100, 5, 0, 59_000)


def test_damaged_names_of_a_recording_do_no_harm() -> None:
    values: dict[str, int | None] = {"committed ": 1, "committed x": 2, "committed g: t-x": 3, "end t-x": 4}
    assert [row["lag"] for row in lag_table(sampled((1, values)), 2, "")["rows"]] == [None, None, 1]


def test_the_page_gets_the_lag_with_the_time_of_the_last_question() -> None:
    recording = Recording()
    recording.samples.add(1_000, {OFFSET: 5, END: 9, "turns": 1, "sampled": 1})
    told = RecordingApi(recording).lag({"time_ms": "1400"})
    assert (told["sampled_ms"], told["age_ms"], told["rows"][0]["lag"]) == (1_000, 400, 4)
    with pytest.raises(BadRequest, match="time_ms must be a whole number"):
        RecordingApi(recording).lag({"time_ms": "1e999"})

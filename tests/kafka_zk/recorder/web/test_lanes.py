"""Which lanes are folded, and where the silence in a folded one is."""

import pytest

from kafka_zk.recorder.recording.spans import LaneGroup
from kafka_zk.recorder.web.lanes import Silence, is_folded, silences


@pytest.mark.parametrize(
    ("stem", "count", "folded"),
    [("t-", 12, False), ("t-", 13, True), ("__t-", 1, True), ("g: __t-", 1, True), ("__g: t-", 1, False)],
)
def test_large_and_internal_topics_are_folded_until_somebody_opens_them(stem: str, count: int, folded: bool) -> None:
    group = LaneGroup("owner", stem, count, 0, None)
    assert is_folded(group, (), ()) == folded
    assert not is_folded(group, (f"owner {stem}",), ())
    assert is_folded(group, (), (f"owner {stem}",))


def test_silence_is_counted_by_time() -> None:
    assert silences([(10, 20), (15, 30), (40, None)]) == [
        Silence(10, 15, 1), Silence(15, 20, 2), Silence(20, 30, 1), Silence(40, None, 1)
    ]  # fmt: skip
    assert silences([(10, None), (12, None)]) == [Silence(10, 12, 1), Silence(12, None, 2)]
    assert silences([]) == []

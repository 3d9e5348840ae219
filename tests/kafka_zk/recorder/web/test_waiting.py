"""Tests of the limits for unread responses."""

from kafka_zk.recorder.web.waiting import WaitingBytes


def test_one_address_leaves_room_for_others_and_all_together_are_bounded() -> None:
    waiting = WaitingBytes(100, 50)
    assert [waiting.add("a", 30), waiting.add("a", 30), waiting.add("b", 50), waiting.add("c", 30)] == [
        True, False, True, False,
    ]  # fmt: skip
    waiting.remove("a", 30)
    assert waiting.add("c", 30)


def test_a_response_above_the_bounds_may_wait_alone() -> None:
    waiting = WaitingBytes(100, 50)
    assert waiting.add("a", 1_000)
    assert not waiting.add("b", 1)
    waiting.remove("a", 1_000)
    assert waiting.add("b", 1)

"""The demo's check finds the faults that it exists for."""

import pytest

from kafka_zk.learn.demo.tally import Tally

SENT = [(b"UA", b"1"), (b"AA", b"2"), (b"UA", b"3")]


def tally(records: list[tuple[bytes, bytes]]) -> Tally:
    made = Tally()
    for key, value in records:
        made.add(key, value)
    return made


def test_the_same_records_interleaved_differently_are_no_difference() -> None:
    assert tally(SENT).difference(tally([SENT[1], SENT[0], SENT[2]])) is None


@pytest.mark.parametrize(
    ("received", "sentence"),
    [
        (SENT[:2], "3 records were written but 2 came back"),
        ([(b"UA", b"1"), (b"AA", b"2"), (b"AA", b"3")], "1 records of AA were written but 2 came back"),
        ([(b"UA", b"1"), (b"AA", b"2"), (b"UA", b"4")], "records of UA came back changed"),
        ([(b"UA", b"3"), (b"AA", b"2"), (b"UA", b"1")], "records of UA came back in another order"),
        ([(b"UA", b"1"), (b"DL", b"2"), (b"UA", b"3")], "1 records of AA were written but 0 came back"),
    ],
)
def test_a_difference_is_told_in_one_sentence(received: list[tuple[bytes, bytes]], sentence: str) -> None:
    assert tally(SENT).difference(tally(received)) == sentence


def test_two_records_do_not_pass_for_their_concatenation() -> None:
    assert tally([(b"k", b"a"), (b"k", b"b\nc")]).difference(tally([(b"k", b"a\nb"), (b"k", b"c")])) is not None

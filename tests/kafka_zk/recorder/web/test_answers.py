"""An answer is computed once until the recording changes, and kept answers have a bounded size."""

import gzip
import json
import random

import pytest

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.answers import Answers
from kafka_zk.recorder.web.api import BadRequest


class Computing:
    def __init__(self) -> None:
        self.count = 0

    def answer(self) -> Document:
        self.count += 1
        return {"number": self.count}

    def refuse(self) -> Document:
        self.count += 1
        raise BadRequest("there is no such entry")


def test_an_answer_is_computed_once_until_the_recording_changes() -> None:
    answers, computing = Answers(), Computing()
    found = {answers.of("state?seq=1", computing.answer) for _ in range(40)}
    assert [json.loads(gzip.decompress(each.packed)) for each in found] == [{"number": 1}]
    answers.of("state?seq=2", computing.answer)
    answers.clear()
    answers.of("state?seq=1", computing.answer)
    assert computing.count == 3


def test_a_refusal_has_its_reason_and_is_not_kept() -> None:
    answers, computing = Answers(), Computing()
    for _ in range(2):
        found = answers.of("entry?seq=x", computing.refuse)
        assert (found.code, gzip.decompress(found.packed)) == (400, b'{"error": "there is no such entry"}')
    assert computing.count == 2


def test_an_error_of_ours_is_not_kept() -> None:
    def fail() -> Document:
        raise OSError("disk")

    answers = Answers()
    with pytest.raises(OSError, match="disk"):
        answers.of("state", fail)
    assert answers.of("state", dict).code == 200


def test_kept_answers_have_a_bounded_size() -> None:
    """The oldest are dropped first; an answer that is larger than the bound is not kept."""
    noise, computing = random.Random(1).randbytes(500).hex(), Computing()
    answers = Answers(most_bytes=10_000)
    for number in range(100):
        answers.of(f"state?seq={number}", lambda: {"noise": noise})
    answers.of("state?seq=99", computing.answer)
    assert computing.count == 0, "the latest is kept"
    answers.of("state?seq=0", computing.answer)
    assert computing.count == 1, "the oldest was dropped"
    for _ in range(2):
        answers.of("x" * 10_000, computing.answer)
    assert computing.count == 3

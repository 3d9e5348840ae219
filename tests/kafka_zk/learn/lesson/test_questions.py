"""Questions are about concepts, have one right answer among others, and explain it."""

from pathlib import Path

import pytest

from kafka_zk.learn.lesson import questions
from kafka_zk.recorder.web.lesson_steps import Question

ALL = {name: each for name, each in vars(questions).items() if isinstance(each, Question)}
CHAPTERS = Path(questions.__file__).parent


@pytest.mark.parametrize("name", ALL)
def test_a_question_has_one_answer_and_a_reason_and_is_asked(name: str) -> None:
    asked = ALL[name]
    assert asked.text.endswith("?") and len(set(asked.options)) == len(asked.options) == 3
    assert asked.answer in asked.options and asked.why.endswith(".") and asked.answer not in asked.why
    places = [file.name for file in CHAPTERS.glob("*.py") if f"questions.{name})" in file.read_text()]
    assert len(places) == 1, places


def test_the_right_answer_is_not_always_at_the_same_place() -> None:
    assert {each.options.index(each.answer) for each in ALL.values()} == {0, 1, 2}

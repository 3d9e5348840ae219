"""For every kind of entry, the page has an explanation and the code behind it."""

from pathlib import Path

import pytest

from kafka_zk.recorder.recording.entries import CHANGES, SESSION_BEGAN, SESSION_ENDED
from kafka_zk.recorder.timeline.event_codec import EVENT_TYPES
from kafka_zk.recorder.web.explanations import code, explanation

REPOSITORY_ROOT = Path(__file__).resolve().parents[4]
KINDS = (*CHANGES, SESSION_BEGAN, SESSION_ENDED, *EVENT_TYPES)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_meaning_and_a_module_that_is_there(kind: str) -> None:
    told = explanation(kind)
    assert told is not None and told.meaning.endswith((".", ")"))
    assert code(told.ours) == (REPOSITORY_ROOT / told.ours).read_bytes()
    assert told.kafkas or kind == "OperatorActed", "the explanation names no code of Kafka"


def test_what_is_unknown_is_not_explained() -> None:
    assert explanation("Invented") is None


@pytest.mark.parametrize(
    "file", ["", "/etc/passwd", "../setup.cfg", "kafka_zk/__init__.py", "kafka_zk/recorder/web/server.py"]
)
def test_only_the_named_modules_can_be_read(file: str) -> None:
    assert code(file) is None

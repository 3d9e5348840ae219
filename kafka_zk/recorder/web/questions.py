"""The queries that a page may send, by name."""

from collections.abc import Callable

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.api import Query, RecordingApi
from kafka_zk.recorder.web.strategies import strategies

Question = Callable[[Query], Document]
"""Raises: BadRequest."""


def questions(api: RecordingApi) -> dict[str, Question]:
    """All queries but ``recording``, whose answer depends on who asks."""
    return {
        "state": api.state, "tree": api.tree, "at": api.at, "entries": api.entries, "entry": api.entry,
        "spans": api.spans, "step": api.step, "episodes": api.episodes, "play": api.play, "znode": api.znode,
        "samples": api.samples, "health": api.health, "lesson": api.lesson, "question": api.question,
        "records": api.records, "lag": api.lag, "strategies": lambda query: strategies(),
    }  # fmt: skip

"""A lesson in a recording: its steps, and the questions about them. Pure.

The recording contains the steps. A lesson asks its own questions. Where it has no question, as in a scenario, a
question concerns something that a step changes: the controller, a partition's leader, or a partition's owner in a
group.
"""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.cluster_view import cluster_document, is_internal
from kafka_zk.recorder.zookeeper_files.snapshot import Znode

KEY = "lesson"
"""Key of the recording's note."""
NONE = "none"
NOTE, TOLD = "note", "told"
"""Kinds of steps: a remark, and an announcement of the next action."""


_RULES = {
    "controller": "The first broker that creates /controller is the controller, until its session ends.",
    "leader": "The controller chooses the first replica of the assignment that is alive and in the ISR.",
    "owner": "Every member computes the same assignment from the same members and partitions, and claims its part.",
}


class Question(NamedTuple):
    """``answer``: one of the options. ``why``: explains it."""

    text: str
    options: tuple[str, ...]
    answer: str
    why: str = ""


class Step(NamedTuple):
    """``text``: what is done, said or expected after entry ``from_seq``. ``seq``: the last entry before the next step.

    ``play``: the part of the lesson, such as a chapter. ``kind``: command, note, told, held, failed or violation.
    ``question``: asked before the effects are shown.
    ``happened``: its effects, in sentences. ``picture``: lines that must not be wrapped. ``number``: the scenario's
    line, which is the same in both runs; 0 if there is no line.
    """

    play: str
    kind: str
    text: str
    from_seq: int
    seq: int
    happened: tuple[str, ...]
    picture: tuple[str, ...] = ()
    question: Question | None = None
    number: int = 0


class Lesson(NamedTuple):
    """``said``: what the lesson teaches. ``finished``: no more steps follow. ``has_questions``: it asks its own; the
    first one may not have been recorded yet.
    """

    title: str
    said: str
    steps: tuple[Step, ...]
    finished: bool = True
    has_questions: bool = False


def encode(lesson: Lesson) -> str:
    return json.dumps({**lesson._asdict(), "steps": [step_document(step) for step in lesson.steps]})


def step_document(step: Step) -> Document:
    asked = step.question
    return {**step._asdict(), "question": None if asked is None else asked._asdict()}


def decode(text: str) -> Lesson:
    """Raises: ValueError, KeyError, TypeError."""
    document = json.loads(text)
    steps = tuple(
        Step(**{**each, **_lines(each), "question": _asked(each.get("question"))}) for each in document["steps"]
    )
    asks = document.get("has_questions", any(step.question is not None for step in steps))
    return Lesson(document["title"], document["said"], steps, document.get("finished", True), asks)


def _lines(step: Document) -> Document:
    return {name: tuple(step.get(name, ())) for name in ("happened", "picture")}


def _asked(document: Document | None) -> Question | None:
    return None if document is None else Question(**{**document, "options": tuple(document["options"])})


def question(before: Mapping[str, Znode], after: Mapping[str, Znode]) -> Question | None:
    """A question about a step; None if the step left nothing to guess."""
    old, new = cluster_document(before), cluster_document(after)
    was, now = dict(_roles(old)), dict(_roles(new))
    brokers = [f"broker {each['id']}" for cluster in (old, new) for each in cluster["brokers"]]
    members = [each["id"] for cluster in (old, new) for group in cluster["groups"] for each in group["members"]]
    for what, holder in now.items():
        if what in was and was[what] != holder:
            asked, kind = what
            options = members if kind == "owner" else brokers
            return Question(asked, tuple(dict.fromkeys([*options, was[what], holder, NONE])), holder, _RULES[kind])
    return None


def _roles(cluster: Document) -> Iterator[tuple[tuple[str, str], str]]:
    broker = cluster["controller"]["broker"]
    yield ("Which broker is the controller now?", "controller"), NONE if broker is None else f"broker {broker}"
    for topic in cluster["topics"]:
        for each in topic["partitions"]:
            if not is_internal(topic["name"]) and each["epoch"] is not None:
                leader = NONE if each["leader"] < 0 else f"broker {each['leader']}"
                yield (f"Who leads {topic['name']}-{each['partition']} now?", "leader"), leader
    for group in cluster["groups"]:
        for tp in group["offsets"].keys() | group["owners"].keys():
            owner = group["owners"].get(tp, NONE)
            member = next((each["id"] for each in group["members"] if owner.startswith(each["id"])), owner)
            yield (f"Who owns {tp} in group {group['name']} now?", "owner"), member

"""A lesson in a recording: its steps, and questions that the recording can answer. Pure.

The recording contains the steps. A question concerns something that a step changes: the controller, a partition's
leader, or a partition's owner in a group.
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
"""Kinds of steps: a remark, and an announcement of what happens next."""


class Step(NamedTuple):
    """``text``: what is done, said or expected after entry ``from_seq``. ``seq``: the last entry before the next step.

    ``play``: the part of the lesson, such as a chapter. ``kind``: command, note, told, held, failed or violation.
    ``happened``: its effects, in sentences. ``picture``: lines that must not be wrapped.
    """

    play: str
    kind: str
    text: str
    from_seq: int
    seq: int
    happened: tuple[str, ...]
    picture: tuple[str, ...] = ()


class Lesson(NamedTuple):
    """``said``: what the lesson teaches. ``finished``: no more steps follow."""

    title: str
    said: str
    steps: tuple[Step, ...]
    finished: bool = True


class Question(NamedTuple):
    text: str
    options: tuple[str, ...]
    answer: str


def encode(lesson: Lesson) -> str:
    return json.dumps({**lesson._asdict(), "steps": [step._asdict() for step in lesson.steps]})


def decode(text: str) -> Lesson:
    """Raises: ValueError, KeyError, TypeError."""
    document = json.loads(text)
    lines = ("happened", "picture")
    steps = tuple(
        Step(**{**each, **{name: tuple(each.get(name, ())) for name in lines}}) for each in document["steps"]
    )
    return Lesson(document["title"], document["said"], steps, document.get("finished", True))


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
            return Question(asked, tuple(dict.fromkeys([*options, was[what], holder, NONE])), holder)
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

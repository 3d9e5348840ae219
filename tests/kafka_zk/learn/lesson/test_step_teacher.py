"""A lesson as steps: the contents of each, and where each begins and ends in the recording."""

from pathlib import Path

from kafka_zk.base.events import Event
from kafka_zk.learn.lesson.questions import FIFTH_MEMBER
from kafka_zk.learn.lesson.step_teacher import StepTeacher
from kafka_zk.recorder.web.lesson_steps import Lesson, decode, encode
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired


class Listener:
    """The data that a page keeps; each ``take`` finds ten more entries."""

    def __init__(self) -> None:
        self.count = 0
        self.lessons: list[Lesson] = []
        self.rooms: list[Path] = []
        self.heard: list[Event] = []
        self.teacher = StepTeacher(
            self._take, self.lessons.append, lambda data, trace: self.rooms.append(data), self.heard.append
        )

    def _take(self) -> int:
        self.count += 10
        return self.count


def test_what_is_shown_belongs_to_what_was_said_before() -> None:
    """The teacher does not wait. Texts before the first chapter, or after its last step, form no step."""
    listener = Listener()
    teacher = listener.teacher
    teacher.aside("a cluster starts")
    teacher.room_opened(Path("data"), Path("trace"))
    teacher.chapter(1, "One")
    teacher.say("a thought")
    teacher.ask(FIFTH_MEMBER)
    teacher.tell("anna joins.")
    teacher.show("→ rebalance")
    teacher.picture(["t-0 aaa", "t-1 bbb"])
    teacher.all_seen()
    teacher.chapter(2, "Two")
    teacher.show("nothing that is said")
    teacher.tell("ben joins.")
    teacher.finish()
    lesson = listener.lessons[-1]
    assert lesson.finished and not listener.lessons[0].finished
    assert [(each.play, each.kind, each.text) for each in lesson.steps] == [
        ("1. One", "note", "a thought"), ("1. One", "told", "anna joins."), ("2. Two", "told", "ben joins.")
    ]  # fmt: skip
    assert [each.question for each in lesson.steps] == [None, FIFTH_MEMBER, None]
    assert lesson.steps[1].happened == ("→ rebalance",)
    assert lesson.steps[1].picture == ("t-0 aaa", "t-1 bbb")
    assert [each.from_seq for each in lesson.steps[1:]] == [lesson.steps[0].seq, listener.count - 10]
    assert all(each.from_seq < each.seq for each in lesson.steps)
    assert listener.rooms == [Path("data")]
    assert decode(encode(lesson)) == lesson


def test_a_kind_of_watch_is_explained_when_it_fires_first() -> None:
    listener = Listener()
    teacher = listener.teacher
    teacher.chapter(1, "One")
    for name in ("anna", "ben"):
        teacher.tell(f"{name} joins.")
        event = WatchFired(1, name, "", 0, "/consumers/class/ids", EventType.CHILD)
        teacher.observe(event)
        assert listener.heard[-1] is event
    teacher.finish()
    first, second = (each.happened for each in listener.lessons[-1].steps)
    assert first[0].startswith("▼ ids: A member joined or left.") and second == ()

"""The teacher's texts, where it stops, and the effect of keys."""

import io
from typing import Any

import pytest

from kafka_zk.learn.lesson import course, keys
from kafka_zk.learn.lesson.errors import ChapterLeft
from kafka_zk.learn.lesson.gate import Fire
from kafka_zk.learn.lesson.keys import Key
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.registry.client.client import EventType, WatchedEvent


class Reader:
    """Presses these keys, and records the line written before each."""

    def __init__(self, *pressed: Key) -> None:
        self.lines: list[str] = []
        self.stops: list[str] = []
        self._pressed = list(pressed)

    def __call__(self) -> Key:
        self.stops.append(self.lines[-1].strip())
        return self._pressed.pop(0) if self._pressed else Key.GO_ON

    def teacher(self) -> Teacher:
        return Teacher(True, self.lines.append, answer=self)


def fires(path: str, *members: str, kind: EventType = EventType.CHILD) -> list[Fire]:
    return [Fire(member, WatchedEvent(kind, path), lambda: None) for member in members]


def test_one_change_that_reaches_four_members_is_one_line() -> None:
    """The names are sorted, and several partitions share a line."""
    reader = Reader()
    teacher = reader.teacher()
    teacher.watches_fire(fires("/consumers/g/ids", "dora", "ben", "anna", "cleo"))
    assert reader.lines[0] == "   ⚡ ids changed: anna, ben, cleo, dora"
    del reader.lines[:]
    both: list[Fire] = []
    for number in (2, 3):
        both += fires(f"/consumers/g/owners/t/{number}", "ben", kind=EventType.DELETED)
    teacher.watches_fire(both)
    assert reader.lines[0] == "   ⚡ owners/t/2,3 deleted: ben"


def test_a_kind_of_watch_is_explained_once_and_stops_once() -> None:
    """After that the reader knows it."""
    reader = Reader()
    teacher = reader.teacher()
    for _ in range(10):
        teacher.watches_fire(fires("/consumers/g/ids", "anna"))
    teacher.watches_fire(fires("/consumers/g/kafka-zk/assignment", "anna", kind=EventType.CHANGED))
    assert len(reader.stops) == 2 and len(reader.lines) == 13


@pytest.mark.parametrize(
    ("key", "first_stop", "second_stop"), [(Key.QUIT, None, None), (Key.SKIP, 1, 1), (Key.BACK, -1, 0)]
)
def test_keys_lead_out_of_a_chapter(key: Key, first_stop: int | None, second_stop: int | None) -> None:
    """Back leads to the beginning of the chapter, and from there to the previous one."""
    for before, step in (((), first_stop), ((Key.GO_ON,), second_stop)):
        teacher = Reader(*before, key).teacher()
        teacher.chapter(1, "Title")
        for _ in before:
            teacher.say("First.")
        with pytest.raises(ChapterLeft) as left:
            teacher.say("Second.")
        assert left.value.step == step


class Room:
    def __init__(self) -> None:
        self.dismissed = 0

    def dismiss(self) -> None:
        self.dismissed += 1


def given(*outcomes: int | str | None) -> tuple[list[int], dict[str, Any], int]:
    """The chapters that run if each of three ends like this: ``"done"``, or left by that step."""
    log: list[int] = []
    left = list(outcomes)

    def chapter(number: int) -> course.Chapter:
        def run(_: Any) -> dict[str, Any]:
            log.append(number)
            outcome = left.pop(0) if left else "done"
            if isinstance(outcome, str):
                return {"number": number}
            raise ChapterLeft(outcome)

        return run

    room = Room()
    chapters = {number: chapter(number) for number in (1, 2, 3)}
    report = course.run(room, chapters, [1, 2, 3])  # type: ignore[arg-type]
    return log, report, room.dismissed


def test_chapters_follow_the_reader() -> None:
    """When the reader leaves a chapter, its members end."""
    assert given()[0] == [1, 2, 3]
    assert given(1, "done", None) == ([1, 2, 3], {"chapter 2": {"number": 2}}, 2)
    assert given("done", -1, "done", 0, "done", "done")[0] == [1, 2, 1, 2, 2, 3]
    assert given(-1)[0] == [1, 1, 2, 3]
    assert given(1, 1, 1) == ([1, 2, 3], {}, 3)


def test_without_a_terminal_a_line_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lines are ignored; the end of the input ends the lesson."""
    monkeypatch.setattr("sys.stdin", io.StringIO("\nx\nS\nb\nq\n"))
    assert [keys.ask() for _ in range(5)] == [Key.GO_ON, Key.SKIP, Key.BACK, Key.QUIT, Key.QUIT]

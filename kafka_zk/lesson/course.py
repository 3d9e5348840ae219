"""The chapters one after the other, or where the reader wants to go."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_zk.lesson.classroom import Classroom
from kafka_zk.lesson.errors import ChapterLeft

Chapter = Callable[[Classroom], dict[str, Any]]


def run(room: Classroom, chapters: Mapping[int, Chapter], numbers: Sequence[int]) -> dict[str, Any]:
    """Give these chapters; returns what each of those reported that were read to the end."""
    report: dict[str, Any] = {}
    position = 0
    while position < len(numbers):
        number = numbers[position]
        try:
            report[f"chapter {number}"] = chapters[number](room)
            position += 1
        except ChapterLeft as left:
            room.dismiss()
            if left.step is None:
                break
            position = max(0, position + left.step)
    return report

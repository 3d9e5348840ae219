"""Runs the chapters in sequence, or as the reader navigates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_zk.learn.lesson.errors import ChapterLeft
from kafka_zk.learn.lesson.rooms import Rooms

Chapter = Callable[[Rooms], dict[str, Any]]


def run(rooms: Rooms, chapters: Mapping[int, Chapter], numbers: Sequence[int]) -> dict[str, Any]:
    """Returns the reports of completed chapters."""
    report: dict[str, Any] = {}
    position = 0
    while position < len(numbers):
        number = numbers[position]
        try:
            report[f"chapter {number}"] = chapters[number](rooms)
            position += 1
        except ChapterLeft as left:
            rooms.dismiss()
            if left.step is None:
                break
            position = max(0, position + left.step)
    return report

"""On the page each chapter has a cluster of its own; on a terminal, chapters with the same needs share one."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kafka_zk.learn.lesson import rooms as module
from kafka_zk.learn.lesson.rooms import Rooms
from kafka_zk.learn.lesson.teacher import Teacher


class Room(nullcontext[Any]):
    """A room that starts no cluster."""

    zookeeper = "h:1"
    opened: ClassVar[list[Path]] = []

    def __init__(self, data_dir: Path, *args: object) -> None:
        super().__init__(self)
        self.opened.append(data_dir)


@pytest.mark.parametrize(("each_new", "count"), [(True, 3), (False, 1)])
def test_chapters_leak_into_each_other_only_where_they_share_a_cluster(
    each_new: bool, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "Classroom", Room)
    monkeypatch.setattr(Room, "opened", [])
    with Rooms(tmp_path, Teacher(False, lambda line: None), each_new=each_new) as rooms:
        for _ in range(3):
            rooms.classroom()
    assert len(Room.opened) == len(set(Room.opened)) == count

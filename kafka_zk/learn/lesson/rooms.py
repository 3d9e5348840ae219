"""The lesson's live clusters, one at a time."""

from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeVar

from kafka_zk.learn.lesson.broker_room import BrokerRoom
from kafka_zk.learn.lesson.classroom import Classroom
from kafka_zk.learn.lesson.secured_room import SecuredRoom
from kafka_zk.learn.lesson.teacher import Teacher

Room = TypeVar("Room", Classroom, BrokerRoom, SecuredRoom)


class Rooms:
    """Opening a room closes the previous one. A context manager.

    Raises the errors of the rooms.

    Args:
        each_new: every chapter has a new cluster; otherwise chapters with the same needs share one.
    """

    def __init__(self, data_dir: Path, teacher: Teacher, verbose: bool = False, *, each_new: bool = False) -> None:
        self._each_new = each_new
        self._count = 0
        self._data_dir = data_dir
        self._teacher = teacher
        self._verbose = verbose
        self._open: Classroom | BrokerRoom | SecuredRoom | None = None
        self._closing = ExitStack()

    def classroom(self) -> Classroom:
        return self._room(Classroom, "groups", "A ZooKeeper and a broker start …", "/consumers")

    def broker_room(self) -> BrokerRoom:
        """The cluster for chapters about brokers, with all brokers running."""
        room = self._room(BrokerRoom, "brokers", "A ZooKeeper and three brokers start …", "/brokers")
        room.repair()
        return room

    def secured_room(self) -> SecuredRoom:
        opens = "A ZooKeeper and two brokers to which clients log in start …"
        return self._room(SecuredRoom, "secured", opens, "/kafka-acl")

    def dismiss(self) -> None:
        """Clean up after a chapter that the reader has left."""
        if self._open is not None:
            self._open.dismiss()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _room(self, kind: type[Room], folder: str, opens: str, path: str) -> Room:
        if isinstance(self._open, kind) and not self._each_new:
            return self._open
        self._close()
        self._teacher.aside(opens)
        self._count += 1
        data_dir = self._data_dir / f"{folder}-{self._count}"
        self._open = room = self._closing.enter_context(kind(data_dir, self._teacher, self._verbose))
        self._tell_where(room.zookeeper, path)
        return room

    def _close(self) -> None:
        self._open = None
        self._closing.close()

    def _tell_where(self, zookeeper: str, path: str) -> None:
        self._teacher.aside("… and serve requests. To see how this lesson changes the znodes, run in another terminal:")
        self._teacher.aside(f"kafka-zk znodes --zookeeper {zookeeper} {path}")

"""If announcements are deleted before they are read, and only then, the watcher reports that it missed some."""

from collections.abc import Callable

import pytest

from kafka_zk.base.events import SILENT
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import Delete, ZnodeStat
from tests.registry.world import World

PARENT = "/changes"


class Watched(World):
    """A watcher of announcements, ``reader``, and another client that creates them."""

    def __init__(self) -> None:
        super().__init__(2)
        self.writer, self.reader = self.clients
        self.heard: list[str] = []
        self.scheduler.run(self.writer.create(PARENT))
        self.announce("before the watch")
        ChangeWatcher(
            self.reader,
            PARENT,
            "change_",
            lambda path, data: self.heard.append(str(data, "utf-8") if isinstance(data, bytes) else repr(data)),
            SILENT,
            lambda: self.heard.append("missed"),
        )
        self.scheduler.run_for(1000)
        assert self.heard == ["before the watch"]
        self.heard.clear()

    def announce(self, text: str) -> str:
        return self.scheduler.run(self.writer.create(f"{PARENT}/change_", text.encode(), sequential=True))

    def purge(self) -> None:
        for name in self.zookeeper.tree.children(PARENT)[0]:
            self.scheduler.run(self.writer.delete(f"{PARENT}/{name}"))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def announced(watched: Watched) -> None:
    watched.announce("a")
    watched.announce("b")


def announced_and_purged_when_read(watched: Watched) -> None:
    announced(watched)
    watched.scheduler.run_for(1000)
    watched.purge()


def announced_over_a_lost_connection(watched: Watched) -> None:
    watched.reader.cut()
    announced(watched)
    watched.reader.heal()


@pytest.mark.parametrize("happens", [announced, announced_and_purged_when_read, announced_over_a_lost_connection])
def test_announcements_that_are_read_are_not_missed(watched: Watched, happens: Callable[[Watched], None]) -> None:
    happens(watched)
    watched.scheduler.run_for(1000)
    assert watched.heard == ["a", "b"]


@pytest.mark.parametrize("goes_on", [True, False])
def test_one_that_came_and_went_during_a_cut_is_missed(watched: Watched, goes_on: bool) -> None:
    """The session survives, so nothing else shows that a change was missed."""
    watched.reader.cut()
    watched.announce("a")
    watched.purge()
    if goes_on:
        watched.announce("b")
    watched.reader.heal()
    watched.scheduler.run_for(1000)
    assert watched.heard == ["missed", *(["b"] if goes_on else [])]


def test_one_that_is_listed_and_gone_is_missed(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = watched.zookeeper.tree
    children = tree.children

    def gone(path: str) -> tuple[list[str], ZnodeStat]:
        found = children(path)
        monkeypatch.undo()
        tree.apply(Delete(f"{PARENT}/{found[0][-1]}", -1), 0, 0)
        return found

    monkeypatch.setattr(tree, "children", gone)
    watched.announce("a")
    watched.scheduler.run_for(1000)
    assert watched.heard == ["missed"]


def test_many_that_are_listed_and_gone_are_missed_once(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report makes the broker read everything; a report per announcement would make it read all users a thousand
    times."""
    tree = watched.zookeeper.tree
    children = tree.children
    watched.reader.cut()
    for text in "abc":
        watched.announce(text)

    def gone(path: str) -> tuple[list[str], ZnodeStat]:
        found = children(path)
        monkeypatch.undo()
        for name in found[0][-3:]:
            tree.apply(Delete(f"{PARENT}/{name}", -1), 0, 0)
        return found

    monkeypatch.setattr(tree, "children", gone)
    watched.reader.heal()
    watched.scheduler.run_for(1000)
    assert watched.heard == ["missed"]


def test_a_parent_that_was_made_anew_may_have_had_any(watched: Watched) -> None:
    watched.reader.cut()
    watched.purge()
    watched.scheduler.run(watched.writer.delete(PARENT))
    watched.scheduler.run(watched.writer.create(PARENT))
    watched.reader.heal()
    watched.scheduler.run_for(1000)
    assert watched.heard == ["missed"]


def test_the_count_of_changes_may_overflow(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """``cversion`` is a signed number of 32 bits."""
    tree = watched.zookeeper.tree
    children = tree.children

    def wrapped(path: str) -> tuple[list[str], ZnodeStat]:
        names, stat = children(path)
        return names, stat._replace(cversion=(stat.cversion + 2**31 - 3 + 2**31) % 2**32 - 2**31)

    monkeypatch.setattr(tree, "children", wrapped)
    watched.announce("a")
    watched.scheduler.run_for(1000)
    watched.heard.clear()
    watched.announce("b")
    watched.scheduler.run_for(1000)
    assert watched.heard == ["b"]

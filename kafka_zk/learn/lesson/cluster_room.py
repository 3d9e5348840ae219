"""The functions that chapters need with every kind of cluster."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.replica.events import ReplicaEvent
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.learn.lesson.teacher import Teacher
from kafka_zk.recorder.timeline.cluster_lines import ClusterEvents, ClusterLines
from kafka_zk.recorder.timeline.cluster_observer import ClusterObserver
from kafka_zk.recorder.timeline.trace_file import TraceFollower
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.events import RegistryEvent
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking

PATIENCE_S = 60
POLL_MS = 50
_TICK_TIME_MS = 500
_LATE_MS = 300
"""Maximum delay of events in the brokers' traces."""
_SHOWN = (ControllerEvent, ReplicaEvent, RegistryEvent)


class ClusterRoom(ABC):
    """``client``: for the lesson's own reads and writes.

    Raises: EmbeddedError, KafkaError, RegistryError; LessonFailed if an expected event does not come in time.
    """

    client: KazooBlockingClient

    def __init__(
        self, data_dir: Path, teacher: Teacher, verbose: bool, make_cluster: Callable[..., EmbeddedCluster]
    ) -> None:
        self.teacher = teacher
        self.verbose = verbose
        self._data_dir = data_dir
        self._trace = data_dir / "trace"
        self._cluster = make_cluster(data_dir, tick_time_ms=_TICK_TIME_MS, force_sync=False, trace=self._trace)
        self._closing = ExitStack()
        self._topics: dict[str, int] = {}  # how often each name was requested

    @property
    def zookeeper(self) -> str:
        return self._cluster.zookeeper_connect

    def __enter__(self) -> Self:
        self._cluster.start()
        self._closing.callback(self._cluster.stop)
        try:
            self._prepare()
            self.client = self._closing.enter_context(KazooBlockingClient(self.zookeeper))
            self.teacher.room_opened(self._data_dir / "zookeeper" / "data", self._trace)
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Bring the new cluster into the state in which each chapter begins."""

    def _new_name(self, topic: str) -> TopicPartition:
        """A name that was used before gets a number."""
        count = self._topics[topic] = self._topics.get(topic, 0) + 1
        return TopicPartition(topic if count == 1 else f"{topic}-{count}", 0)

    def znode(self, path: str) -> tuple[str, ZnodeStat] | None:
        try:
            data, stat = run_blocking(self.client.get(path))
        except NoNode:
            return None
        return (data or b"").decode(), stat

    def show_znode(self, path: str, data_matters: bool = True) -> None:
        """``data_matters``: show data and version."""
        found = self.znode(path)
        if found is None:
            self.teacher.show(f"{path}  does not exist")
            return
        data, stat = found
        told = [data, f"znode version {stat.version}"] if data_matters else []
        if stat.ephemeral_owner:
            told.append(f"ephemeral, of session {stat.ephemeral_owner:#x}")
        self.teacher.show(f"{path}  {', '.join(told)}")

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait for ``done`` while processing events. Raises LessonFailed."""
        end_s = time.monotonic() + PATIENCE_S
        while not done():
            if time.monotonic() > end_s:
                raise LessonFailed(f"waited {PATIENCE_S} s for {what}, without success")
            self.client.process(POLL_MS)

    @contextmanager
    def watched(self, kinds: tuple[type[Event], ...] = _SHOWN) -> Iterator["News"]:
        """Collect the events of the block. ``kinds``: the events to take from the brokers' traces."""
        news = News(TraceFollower(self._trace, from_start=False), self.verbose, self.client.process, kinds)
        observer = ClusterObserver(self.client, news.add)
        self.client.process(POLL_MS)
        try:
            yield news
        finally:
            observer.close()


class News:
    def __init__(
        self,
        follower: TraceFollower,
        verbose: bool,
        process: Callable[[float], None],
        kinds: tuple[type[Event], ...],
    ) -> None:
        self._follower = follower
        self._kinds = kinds
        self._verbose = verbose
        self._process = process
        self._events = ClusterEvents()
        self._since_ms = int(time.time() * 1000)
        self.all: list[Event] = []
        """All events since ``begin``."""

    def begin(self) -> None:
        """Forget earlier events; ``seconds`` counts from now."""
        self._since_ms = int(time.time() * 1000)
        self.all.clear()
        self._events = ClusterEvents()

    def add(self, event: Event) -> None:
        if event.time_ms >= self._since_ms:
            self._events.add(event)
            self.all.append(event)

    def seconds(self, time_ms: int | None = None) -> str:
        return f"{((time_ms or int(time.time() * 1000)) - self._since_ms) / 1000:4.1f} s"

    def read(self) -> list[Event]:
        for traced in self._follower.read():
            if isinstance(traced.event, self._kinds):
                self.add(traced.event)
        return self.all

    def lines(self) -> Iterator[str]:
        """One line for each event."""
        self._process(_LATE_MS)
        self.read()
        yield from ClusterLines(self._events, verbose=self._verbose, time_text=self.seconds).lines()

"""``kafka-zk lesson --web``: the page runs on the reactor thread, and the lesson on its caller's thread."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.learn.lesson import course
from kafka_zk.learn.lesson.course import Chapter
from kafka_zk.learn.lesson.rooms import Rooms
from kafka_zk.learn.lesson.step_teacher import StepTeacher
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.web.lesson_steps import KEY, Lesson, encode
from kafka_zk.recorder.web.service import Cluster, WebService
from kafka_zk.recorder.web.sources import LogSource, TraceSource
from kafka_zk.recorder.zookeeper_files.transaction_log import Deleted, Transaction


class LessonPage:
    """Records the clusters of a lesson and serves their page, for callers outside the reactor thread.

    Args:
        port: the page's port; 0 chooses a free one.
        begun: called with the page's URL when the page has content.
        record: a new file for the recording; None: in memory.
    Raises: twisted's CannotListenError, NoRecording.
    """

    def __init__(self, port: int, begun: Callable[[str], None], record: Path | None = None) -> None:
        self._thread = reactor_thread()
        self._begun = begun
        self._is_begun = False
        self._recording, self._clusters, self._service = self._thread.call(self._started, port, record)

    def teach(self, folder: Path, chapters: Mapping[int, Chapter], numbers: Sequence[int]) -> None:
        """``folder``: for the data of the clusters. Raises the errors of ``course.run``."""
        teacher = StepTeacher(self._take, self._keep, self._open_room, self._clusters.heard)
        with Rooms(folder, teacher, each_new=True) as rooms:
            course.run(rooms, chapters, numbers)
        teacher.finish()

    def stop(self) -> None:
        self._thread.call(self._stop)

    def _take(self) -> int:
        return self._thread.call(self._record_now)

    def _keep(self, lesson: Lesson) -> None:
        self._thread.call(self._note, encode(lesson))
        if not self._is_begun:
            self._is_begun = True
            self._begun(self._service.url)

    def _open_room(self, zookeeper_data: Path, trace: Path) -> None:
        self._thread.call(self._begin_cluster, zookeeper_data, trace)

    async def _started(self, port: int, record: Path | None) -> tuple[Recording, "_Clusters", WebService]:
        recording = Recording(record)
        clusters = _Clusters(recording)
        service = WebService(recording, Cluster(clusters, clusters.traces, in_lesson=True), "the lesson's cluster")
        service.start(self._thread.reactor, port)
        return recording, clusters, service

    async def _record_now(self) -> int:
        return self._service.record_now()

    async def _note(self, lesson: str) -> None:
        self._recording.note(KEY, lesson)

    async def _begin_cluster(self, zookeeper_data: Path, trace: Path) -> None:
        self._clusters.begin(zookeeper_data, trace)

    async def _stop(self) -> None:
        self._service.stop()


class _Clusters:
    """Several clusters in sequence as the source of one recording. Zxids continue; the previous cluster's znodes are
    deleted.
    """

    def __init__(self, recording: Recording) -> None:
        self.described = "the transaction logs of the lesson's clusters"
        self.misses = ""
        self.behind = self.interrupted = False
        self.traces = _Traces()
        self._recording = recording
        self._log: LogSource | None = None
        self._clearing: list[Transaction] = []

    def begin(self, zookeeper_data: Path, trace: Path) -> None:
        if self._log is not None:
            last = self._recording.entries.last_zxid() + 1
            paths = sorted(self._recording.znodes.after(self._recording.entries.count).znodes, reverse=True)
            self._clearing = [Transaction(last, wall_ms(), 0, tuple(map(Deleted, paths)))]
            self.traces.zxid_shift = last
        self._log = LogSource(zookeeper_data)
        self.traces.follow(trace)

    def heard(self, event: Event) -> None:
        self.traces.told.append(event)

    def read(self) -> list[Transaction]:
        if self._log is None:
            return []
        shift = self.traces.zxid_shift
        found = [replace(each, zxid=each.zxid + shift) for each in self._log.read()]
        self.behind = self._log.behind
        cleared, self._clearing = self._clearing, []
        if cleared and found:  # brokers may have written before the log was found
            cleared = [replace(cleared[0], time_ms=min(cleared[0].time_ms, found[0].time_ms))]
        return [*cleared, *found]

    def close(self) -> None:
        """Nothing to close: no file stays open between two reads."""


class _Traces:
    def __init__(self) -> None:
        self.told: deque[Event] = deque()
        self.zxid_shift = 0
        self._files: TraceSource | None = None

    def follow(self, trace: Path) -> None:
        self._files = TraceSource(trace, from_start=True)

    def read(self) -> list[Traced]:
        found = self._files.read() if self._files is not None else []
        while self.told:
            found.append(Traced(self.told.popleft(), None))
        return [each._replace(event=self._shifted(each.event)) for each in found]

    def _shifted(self, event: Event) -> Event:
        return replace(event, zxid=event.zxid + self.zxid_shift) if event.zxid else event

"""Records a lesson as steps, without stops, because readers of the page choose their own pace."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kafka_zk.base.events import Event
from kafka_zk.learn.lesson.teacher import Teacher, meaning_of
from kafka_zk.recorder.web.lesson_steps import NOTE, TOLD, Lesson, Question, Step
from kafka_zk.registry.client.events import WatchFired

TITLE = "How groups and replicas work"
SAID = (
    "Everything you see here happens to a real cluster on this machine. It is recorded, so take your time: go on, go "
    "back, or choose another chapter.\n\n"
    "Each chapter has a cluster of its own. Before some steps you are asked what will happen, and why. The address of "
    "this page contains your step, so a reload loses nothing."
)
_WIDTH = 60


class StepTeacher(Teacher):
    """Each text begins a step; other output belongs to the current step.

    Args:
        take: records everything so far; returns the last entry.
        keep: called after each step with all steps so far.
        open_room: called when a cluster has started, with the folders of ZooKeeper's data and of the brokers' traces.
        heard: called with each event of a member, on the reactor thread.
    """

    watches = "An arrow down is a watch that fires; in the timeline it is a ▼."
    holds_watches = False

    def __init__(
        self,
        take: Callable[[], int],
        keep: Callable[[Lesson], None],
        open_room: Callable[[Path, Path], None],
        heard: Callable[[Event], None],
    ) -> None:
        super().__init__(False, lambda line: None)
        self._take = take
        self._keep = keep
        self._open_room = open_room
        self._heard = heard
        self._chapter = ""
        self._steps: list[Step] = []
        self._is_open = False
        self._asked: Question | None = None  # belongs to the next step
        self._fired: list[str] = []  # paths of the watches that fired

    @property
    def width(self) -> int:
        return _WIDTH

    def chapter(self, number: int, title: str) -> None:
        self._end_step()
        self._chapter = f"{number}. {title}"

    def say(self, text: str) -> None:
        self._begin_step(NOTE, text)

    def tell(self, text: str) -> None:
        self._begin_step(TOLD, text)

    def show(self, line: str) -> None:
        if self._is_open:
            self._steps[-1] = self._steps[-1]._replace(happened=(*self._steps[-1].happened, line))

    def picture(self, lines: Iterable[str]) -> None:
        if self._is_open:
            self._steps[-1] = self._steps[-1]._replace(picture=(*self._steps[-1].picture, *lines))

    def aside(self, line: str) -> None:
        """Drop the line: readers of the page need no address."""

    def room_opened(self, zookeeper_data: Path, trace: Path) -> None:
        self._end_step()
        self._open_room(zookeeper_data, trace)

    def ask(self, question: Question) -> None:
        self._asked = question

    def all_seen(self) -> None:
        """The rest of the chapter belongs to no step."""
        self._end_step()

    def observe(self, event: Event) -> None:
        if isinstance(event, WatchFired):
            self._fired.append(event.path)
        self._heard(event)

    def finish(self) -> None:
        self._end_step()
        self._keep(Lesson(TITLE, SAID, tuple(self._steps), finished=True, has_questions=True))

    def _begin_step(self, kind: str, text: str) -> None:
        seq = self._end_step()
        self._steps.append(Step(self._chapter, kind, text, seq, seq, (), question=self._asked))
        self._asked = None
        self._is_open = True

    def _end_step(self) -> int:
        seq = self._take()
        if self._is_open:
            last = self._steps[-1]
            self._steps[-1] = last._replace(seq=seq, happened=(*last.happened, *self._meanings()))
            self._is_open = False
            self._keep(Lesson(TITLE, SAID, tuple(self._steps), finished=False, has_questions=True))
        return seq

    def _meanings(self) -> Sequence[str]:
        fired, self._fired = self._fired, []
        found = []
        for path in fired:
            kind, meaning = meaning_of(path)
            if meaning and kind not in self._explained:
                self._explained.add(kind)
                found.append(f"▼ {kind}: {meaning}")
        return found

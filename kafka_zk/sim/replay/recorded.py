"""Plays a scenario into a recording for ``kafka-zk web``.

A scenario that runs twice, with and without an old rule, appears as two clusters in sequence: all znodes of the
first are deleted before the second begins.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kafka_zk.base.events import Event
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import verdicts
from kafka_zk.recorder.web.lesson_steps import KEY, NOTE, Lesson, Step, encode
from kafka_zk.recorder.web.verdicts import Fault, Verdict
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Restored,
    SessionClosed,
    Transaction,
)
from kafka_zk.recorder.zookeeper_files.transaction_log import Operation as Written
from kafka_zk.registry.client.client import Create, EventType, Operation, SetData, WatchedEvent
from kafka_zk.registry.client.client import Delete as DeleteOperation
from kafka_zk.registry.client.events import SessionChanged
from kafka_zk.sim.judges.fates import fates, faults
from kafka_zk.sim.replay.player import COMMAND, FACT, Line, Played, Replayed, replay
from kafka_zk.sim.replay.record_watch import RecordWatch, event_of
from kafka_zk.sim.scenarios.conditions import JUDGES
from kafka_zk.sim.scenarios.old_rules import OLD_RULES
from kafka_zk.sim.scenarios.scenario import OLD, OURS, PLAYS, Note, Scenario, Statement
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.world.history import Lifted
from kafka_zk.sim.world.world import EPOCH_MS
from kafka_zk.sim.zookeeper.znode_tree import Backup, Result, ZnodeTree

_BETWEEN_PLAYS_MS = 10_000
_SESSIONS = 1 << 48
"""Size of each run's range of session ids."""


def record(scenario: Scenario, recording: Recording) -> None:
    """Run a scenario and record it in an empty recording. Raises ScenarioError if a statement fails."""
    recorder = _Recorder(recording, is_run=scenario.campaign is not None)
    played = replay(scenario, recorder.tell, prepare=recorder.begin)
    steps = recorder.finished()
    told = scenario.told
    recording.note(verdicts.KEY, verdicts.encode(_verdicts(scenario, recorder.stages, played)))
    said = "\n".join([*scenario.lesson, *(["", told.question] if told.question else [])])
    if told.conclusion and steps:
        steps.append(Step(steps[-1].play, NOTE, told.conclusion, steps[-1].seq, steps[-1].seq, told.sources))
    recording.note(KEY, encode(Lesson(scenario.title, said, tuple(steps))))


def _verdicts(scenario: Scenario, stages: Sequence[Stage], played: Replayed) -> list[Verdict]:
    """The judges' findings about records, for each run in which they were asked."""
    plays = dict(zip(scenario.plays, stages, strict=False))
    records = {
        play: fates(each.history.facts, each.logs, each.to_be_read, each.committed) for play, each in plays.items()
    }
    judged = {play for play in plays if any(_asks_judges(each, play) for each in scenario.script)}
    return [
        Verdict(
            PLAYS[play],
            OLD_RULES[scenario.old_rule].says if play == OLD and scenario.old_rule else "",
            tuple(
                Fault(each.tp, each.value, each.fate.value, each.said)
                for each in faults(records[play], records.get(OURS if play == OLD else OLD, records[play]))
                if played.violations[play]  # without violations, the records were only deleted with their topic
            ),
            tuple(played.violations[play]),
            scenario.told.conclusion,
        )
        for play in plays
        if play in judged
    ]


def _asks_judges(each: Statement | Note, play: str) -> bool:
    if isinstance(each, Note) or each.only not in (None, play):
        return False
    return each.condition is not None and each.condition.phrase in JUDGES


class _Recorder:
    """``is_run``: the scenario is a run that a seed generates. Its lines arrive at the end, and its actions are the
    steps."""

    def __init__(self, recording: Recording, *, is_run: bool) -> None:
        self._recording = recording
        self._is_run = is_run
        self.stages: list[Stage] = []
        """The stages of scripts; empty for a run that a seed generates, which has too many records to show each."""
        self._records: RecordWatch | None = None
        self._seen: list[Event] = []
        self._stage: Played | None = None
        self._tree: _LoggedTree | None = None
        self._told = 0
        self._play = -1
        self._base_ms = EPOCH_MS
        self._steps: list[Step] = []
        self._happened: list[str] = []
        self._in_step = False

    def begin(self, stage: Played) -> None:
        """Begin a run. Ignores what the end of the previous world writes."""
        self._end_step()
        ends_ms = (self._recording.entries.times() or (0, EPOCH_MS))[1]
        zxid = self._tree.zxid if self._tree is not None else 0
        gone = [path for path in reversed(self._tree.paths()) if path != "/"] if self._tree is not None else []
        self._play += 1
        self._told, self._stage = 0, stage
        self._base_ms = EPOCH_MS if self._play == 0 else ends_ms + _BETWEEN_PLAYS_MS
        self._tree = _LoggedTree(stage, self._play * _SESSIONS, self._base_ms)
        self._tree.zxid = zxid + 1
        if gone:
            clearing = Transaction(zxid + 1, self._base_ms, 0, tuple(map(Deleted, gone)))
            self._recording.add([], [clearing])
        stage.world.zookeeper.tree = self._tree
        if isinstance(stage, Stage):
            self.stages.append(stage)
            self._seen.clear()
            self._records = RecordWatch(stage, self._seen.append)

    def tell(self, line: Line) -> None:
        if self._records is not None and line.kind != FACT:
            self._records.look()
        self._take()
        kind = COMMAND if self._is_run and line.kind == FACT and not line.who else line.kind
        if kind == FACT:
            self._happened.append(f"{line.time_ms / 1000:.1f} s {line.who} {line.text}")
            return
        self._end_step(line.time_ms)
        begin = self._until(line.time_ms)
        self._steps.append(Step(PLAYS[line.play], kind, line.text, begin, 0, (), number=line.number))
        self._in_step = True

    def _until(self, time_ms: float | None) -> int:
        if not self._is_run or time_ms is None:
            return self._recording.entries.count
        return self._recording.entries.seq_at(self._base_ms + int(time_ms))

    def finished(self) -> list[Step]:
        self._end_step()
        return self._steps

    def _end_step(self, time_ms: float | None = None) -> None:
        if self._in_step:
            self._steps[-1] = self._steps[-1]._replace(seq=self._until(time_ms), happened=tuple(self._happened))
        self._happened, self._in_step = [], False

    def _take(self) -> None:
        if self._stage is None or self._tree is None:
            return
        facts, self._told = self._stage.history.facts[self._told :], len(self._stage.history.facts)
        events: list[Event] = [self._placed(fact) for fact in facts if isinstance(fact, Lifted)]
        if self._records is not None:
            seen, self._seen[:] = [*self._seen, *filter(None, map(event_of, facts))], []
            events += [replace(each, time_ms=self._base_ms + each.time_ms) for each in seen]
            events.sort(key=lambda each: each.time_ms)
        transactions, self._tree.log = self._tree.log, []
        if events or transactions:
            self._recording.add(events, transactions)

    def _placed(self, fact: Lifted) -> Event:
        time_ms = self._base_ms + int(fact.time_ms)
        event = replace(fact.event, time_ms=time_ms)
        if isinstance(event, SessionChanged) and event.session_id is not None:
            return replace(event, session_id=event.session_id + self._play * _SESSIONS)
        return event


class _LoggedTree(ZnodeTree):
    """Records its writes, as ZooKeeper's transaction log does."""

    def __init__(self, stage: Played, first_session: int, base_ms: int) -> None:
        super().__init__()
        self.log: list[Transaction] = []
        self._first_session = first_session
        self._now_ms: Callable[[], int] = lambda: base_ms + int(stage.world.now_ms)

    def apply(self, operation: Operation, session_id: int, now_ms: int) -> tuple[Result, list[WatchedEvent]]:
        result, events = super().apply(operation, session_id, now_ms)
        self._write(session_id, [operation], [result])
        return result, events

    def apply_multi(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[list[Result], list[WatchedEvent]]:
        results, events = super().apply_multi(operations, session_id, now_ms)
        self._write(session_id, operations, results)
        return results, events

    def end_session(self, session_id: int, *, expired: bool) -> list[WatchedEvent]:
        events = super().end_session(session_id, expired=expired)
        gone = tuple(event.path for event in events if event.type is EventType.DELETED)
        self._log(session_id, (SessionClosed(gone, expired),))
        return events

    def restore(self, backup: Backup) -> None:
        super().restore(backup)
        stats = {path: self.get(path) for path in self.paths() if path != "/"}
        znodes = {
            path: Znode(
                data, stat.version, stat.czxid, stat.mzxid, stat.mtime_ms,
                self._first_session + stat.ephemeral_owner if stat.ephemeral_owner else 0,
            )
            for path, (data, stat) in stats.items()
        }  # fmt: skip
        self._log(0, (Restored(znodes),))

    def _write(self, session_id: int, operations: Sequence[Operation], results: Sequence[Any]) -> None:
        written = (_written(*each) for each in zip(operations, results, strict=True))
        self._log(session_id, tuple(each for each in written if each is not None))

    def _log(self, session_id: int, operations: tuple[Written, ...]) -> None:
        self.log.append(Transaction(self.zxid, self._now_ms(), self._first_session + session_id, operations))


def _written(operation: Operation, result: Any) -> Written | None:
    if isinstance(operation, Create):
        return Created(result, operation.data, operation.ephemeral)
    if isinstance(operation, SetData):
        return DataSet(operation.path, operation.data, result.version)
    return Deleted(operation.path) if isinstance(operation, DeleteOperation) else None

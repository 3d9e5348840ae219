"""A recording: the events of a cluster and its znodes at any moment, in an SQLite file or in memory.

Entries are numbered from 1 in the order of their arrival. ZooKeeper's entries are ordered by zxid. Events of processes
arrive up to one poll late and keep their own times. A recording in memory is bounded: it drops its oldest entries. One
in a file is bounded if ``keep_ms`` says so. In both, the state at the first moment is complete: its znodes are in a
checkpoint, and older spans, samples and entries stay while they are valid.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import Event
from kafka_zk.broker.group.events import AssignmentCompleted, MemberDeparted
from kafka_zk.recorder.recording.causality import Causality, Cause
from kafka_zk.recorder.recording.database import open_database, used_bytes
from kafka_zk.recorder.recording.documents import Document, change_document
from kafka_zk.recorder.recording.entries import (
    CHANGED,
    CREATED,
    DELETED,
    FIRST,
    SESSION_BEGAN,
    SESSION_ENDED,
    Entries,
    Entry,
)
from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.holds import assigned, assigned_lanes, health_hold, hold
from kafka_zk.recorder.recording.order import in_order
from kafka_zk.recorder.recording.parts import Part, Parts
from kafka_zk.recorder.recording.samples import Samples
from kafka_zk.recorder.recording.session_names import ZOOKEEPER, session_name
from kafka_zk.recorder.recording.sessions import Sessions
from kafka_zk.recorder.recording.spans import Spans
from kafka_zk.recorder.recording.znode_history import ZnodeHistory
from kafka_zk.recorder.recording.znode_tree import Change
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.recorder.zookeeper_files.transaction_log import SessionClosed, SessionCreated, Transaction
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import SessionChanged

MOST_IN_MEMORY_BYTES = 256 * 1024 * 1024
_FORGOTTEN_SHARE = 8
"""When memory is full, the oldest 1/8 of the entries is dropped."""
_PARTS = "parts"


class Recording:
    """Stores entries and provides their parts (``entries``, ``spans``, …), on one thread. Close it at the end.

    Args:
        path: a file to create or continue; None: in memory, at most MOST_IN_MEMORY_BYTES.
        read_only: the file must exist and is not changed, but the interrupted write of a killed recorder is undone.
        keep_ms: drop what is older than that, see ``parts``; None: drop nothing.
        present_ms: the time of this machine.
    Raises: NoRecording if the file is not a recording or has another version; OSError.
    """

    entries: Entries
    spans: Spans
    znodes: ZnodeHistory
    sessions: Sessions

    def __init__(
        self,
        path: Path | None = None,
        *,
        read_only: bool = False,
        keep_ms: int | None = None,
        present_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._keep_ms, self._present_ms = keep_ms, present_ms
        self.database = open_database(path, read_only=read_only)
        self.is_bounded = path is None
        """True in memory: the oldest entries are dropped."""
        self.kept = "in memory" if path is None else f"in {path.name}"
        """Where the recording is stored, for people."""
        self.samples = Samples(self.database)
        try:
            with self.one_moment():
                self._load({})
        except (zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            self.database.close()
            raise NoRecording(f"{path} is damaged: {error}") from error
        if self._parts is not None:
            with self.database:
                self._drop_old(self._parts, len(self._parts.all))

    def _load(self, names: Mapping[int, str]) -> None:
        self.entries = Entries(self.database)
        self.spans = Spans(self.database)
        self.znodes = ZnodeHistory(self.database, self.entries)
        self.sessions = Sessions(self.database, names)
        self._causality = Causality()
        self._parts = None if self._keep_ms is None else self._divided(self._keep_ms)

    def _divided(self, keep_ms: int) -> Parts:
        """The parts so far, including those of earlier recorders."""
        known = [Part(*each) for each in json.loads(self._meta().get(_PARTS, "[]"))]
        parts, present_ms = Parts(keep_ms, known), self._present_ms()
        for seq, time_ms in self.entries.times_from(known[-1].first if known else self.entries.first):
            parts.take(seq, seq, time_ms, present_ms)
        return parts

    def close(self) -> None:
        self.database.close()

    def add(self, events: Iterable[Event | Traced], transactions: Iterable[Transaction]) -> None:
        """Add everything that arrived since the last call.

        Raises: sqlite3.Error (for example a full disk); then this call has stored nothing.
        """
        names = self.sessions.known()
        try:
            with self.database:
                new_count = self._add_in_order(events, transactions)
                self.znodes.checkpoint_if_due()
                if self._parts is not None:
                    self._drop_old(self._parts, new_count)
        except BaseException:
            self._load(names)
            raise
        while self.is_bounded and self.used_bytes > MOST_IN_MEMORY_BYTES and self.entries.first < self.entries.count:
            self._forget_oldest()

    def _add_in_order(self, events: Iterable[Event | Traced], transactions: Iterable[Transaction]) -> int:
        """Returns: the number of parts that have begun."""
        present_ms, new_count = self._present_ms(), 0
        for each in in_order(events, transactions):
            first = self.entries.count + 1
            if isinstance(each, Transaction):
                self._add_transaction(each)
                time_ms = each.time_ms
            else:
                self._add_event(each.event, each.place)
                time_ms = each.event.time_ms
            if self._parts is not None and self.entries.count >= first:
                new_count += self._parts.take(first, self.entries.count, time_ms, present_ms)
        return new_count

    def _add_event(self, event: Event, place: Mapping[str, int]) -> None:
        if isinstance(event, SessionChanged) and event.session_id:
            self.sessions.name(event.session_id, event.actor)
        cause, certain = self._causality.of_event(event) or (None, False)
        seq = self.entries.count + 1
        path, kind = getattr(event, "path", ""), type(event).__name__
        document = {**encode(event), **place}
        self.entries.add(Entry(seq, event.time_ms, event.actor, kind, path, event.zxid, 0, cause, certain, document))
        for explained in self._causality.told(seq, event):
            self.entries.set_likely_cause(*explained)
        if isinstance(event, AssignmentCompleted | MemberDeparted):
            for each in assigned(event, self.spans.assigned(assigned_lanes(event.group_id))):
                self.spans.add(event.time_ms, each)
        elif isinstance(event, ServerStateChanged | EnsembleStateChanged):
            self.spans.add(event.time_ms, health_hold(event))

    def _add_transaction(self, transaction: Transaction) -> None:
        end, inferred = None, False
        for operation in transaction.operations:
            if isinstance(operation, SessionCreated):
                document: Document = {"session": transaction.session, "timeout_ms": operation.timeout_ms}
                self._add_zookeeper(transaction, SESSION_BEGAN, "", None, document)
            elif isinstance(operation, SessionClosed):
                inferred = operation.inferred
                how = {"inferred": True} if inferred else {"expired": operation.expired}
                document = {"session": transaction.session, **how}
                actor, at_ms = self.sessions.actor_of(transaction.session), transaction.time_ms
                cause = self._causality.of_session_end(actor, at_ms, self._timeout_ms(transaction.session))
                end = self._add_zookeeper(transaction, SESSION_ENDED, "", cause, document)
                self._causality.ended(end, actor, at_ms, cause)
        for change in self.znodes.take(transaction):
            self._add_change(transaction, change, None if end is None else Cause(end, certain=not inferred))

    def _timeout_ms(self, session: int) -> int:
        found = self.entries.first_of_session(session)
        return int(found.document["timeout_ms"]) if found is not None and found.kind == SESSION_BEGAN else 0

    def _add_change(self, transaction: Transaction, change: Change, end: Cause | None) -> None:
        kind = CREATED if change.before is None else DELETED if change.after is None else CHANGED
        name = session_name(change)
        if change.after is not None and name is not None:
            self.sessions.name(change.after.session, name)
        actor, at_ms = self.sessions.actor_of(transaction.session), transaction.time_ms
        cause = end or self._causality.of_change(actor, at_ms)
        if name is not None and kind == CREATED and transaction.session:
            cause = self._cause_of_registration(name, transaction) or cause
        by = ZOOKEEPER if end is not None else None
        seq = self._add_zookeeper(transaction, kind, change.path, cause, change_document(change), by)
        self._causality.changed(seq, transaction.zxid, change.path, at_ms, EventType(kind))
        if (held := hold(change)) is not None:
            self.spans.add(transaction.time_ms, held)

    def _cause_of_registration(self, actor: str, transaction: Transaction) -> Cause | None:
        """The cause of a registration; also set for the beginning of its session, if that is recorded."""
        begin = self.entries.first_of_session(transaction.session)
        begun = [begin.seq] if begin is not None and begin.kind == SESSION_BEGAN else []
        cause = self._causality.of_registration(actor, transaction.time_ms, [*begun, self.entries.count + 1])
        if cause is not None:
            for seq in begun:
                self.entries.set_likely_cause(seq, cause.seq)
        return cause

    def _add_zookeeper(
        self,
        transaction: Transaction,
        kind: str,
        path: str,
        cause: Cause | None,
        document: Document,
        by: str | None = None,
    ) -> int:
        """``by``: the actor; None: the process of the transaction's session."""
        zxid, time_ms = transaction.zxid, transaction.time_ms
        session = transaction.session if by is None else 0
        seq, certain = cause or (None, False)
        actor = by or self.sessions.actor_of(session)
        entry = Entry(self.entries.count + 1, time_ms, actor, kind, path, zxid, session, seq, certain, document)
        self.entries.add(entry)
        return entry.seq

    def _drop_old(self, parts: Parts, new_count: int) -> None:
        """Drop the parts that are too old, but at most one more than have just begun: after a pause, dropping all of
        them at once would take too long. The caller commits.
        """
        kept = parts.drop(new_count + 1)
        if kept is not None:
            oldest_ms = min(kept.from_ms, parts.oldest_ms) - parts.part_ms  # entries may have arrived late
            self._forget_until(kept.first - 1, oldest_ms)
            self.samples.forget_before(oldest_ms)
        if kept is not None or new_count:
            self.database.execute("insert or replace into meta values (?, ?)", (_PARTS, json.dumps(parts.all)))

    def _forget_oldest(self) -> None:
        last = self.entries.first + (self.entries.count - self.entries.first) // _FORGOTTEN_SHARE
        kept = self.entries.entry(last + 1)
        assert kept is not None, "there are later ones"
        with self.database:
            self._forget_until(last, kept.time_ms)

    def _forget_until(self, last: int, time_ms: int) -> None:
        """Drop the entries up to ``last``, and the spans that ended before ``time_ms``. The caller commits."""
        self.znodes.begin_after(last)
        self.spans.forget_before(time_ms)
        self.entries.forget_until(last, self.in_force(last))
        self.sessions.keep(self.znodes.sessions)

    def in_force(self, seq: int) -> set[int]:
        """The entries up to ``seq`` that complete the state after it, see ``Entries``."""
        return self.entries.in_force(seq, self.znodes.after(seq).sessions, self.spans.assigned_groups())

    @property
    def used_bytes(self) -> int:
        return used_bytes(self.database)

    @property
    def misses(self) -> str:
        """What was dropped, as text."""
        if self.entries.first == 1 or (self._keep_ms is None and not self.is_bounded):
            return ""
        if self._keep_ms is not None:
            return f"the first {self.entries.first - 1} entries: they are older than --keep allows"
        size_mb = MOST_IN_MEMORY_BYTES >> 20
        return (
            f"the first {self.entries.first - 1} entries: memory holds the last {size_mb} MB, --record FILE keeps all"
        )

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """All reads within this context see the same state: a process that drops entries waits until the context ends.
        So keep the context short, and write nothing in it.
        """
        self.database.execute("begin")
        try:
            yield
        finally:
            self.database.rollback()

    # --- notes about the recording ---

    def note(self, key: str, value: str) -> None:
        with self.database:
            self.database.execute("insert or replace into meta values (?, ?)", (key, value))

    def notes(self) -> dict[str, str]:
        """The notes, and the version."""
        return {key: value for key, value in self._meta().items() if key not in (FIRST, _PARTS)}

    def _meta(self) -> dict[str, str]:
        return dict(self.database.execute("select key, value from meta"))

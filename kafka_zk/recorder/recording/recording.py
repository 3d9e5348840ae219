"""A recording: everything that happened to a cluster, in one SQLite file or in memory, and the znodes at any moment.

Entries are numbered from 1 in the order in which they were taken. Those of ZooKeeper are in the order of their zxids;
what processes tell comes up to a poll later than it happened, and keeps its own time. Between two *checkpoints*, each
of which holds all znodes, a moment is reached by the changes, forwards or backwards. In memory a recording is bounded:
its oldest entries go.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.broker.group.events import AssignmentCompleted, MemberDeparted
from kafka_zk.recorder.recording import documents
from kafka_zk.recorder.recording.causality import Causality, Cause
from kafka_zk.recorder.recording.documents import Document, change_document, change_of, znode_document
from kafka_zk.recorder.recording.errors import NoRecording
from kafka_zk.recorder.recording.holds import assigned, assigned_lanes, hold
from kafka_zk.recorder.recording.samples import SCHEMA as SAMPLES
from kafka_zk.recorder.recording.samples import Samples
from kafka_zk.recorder.recording.session_names import session_name, unnamed
from kafka_zk.recorder.recording.spans import LaneGroup, Move
from kafka_zk.recorder.recording.watchers import Lifetime, SetWatch, standing
from kafka_zk.recorder.recording.znode_tree import Change, Znode, ZnodeTree
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.zookeeper_files.transaction_log import SessionClosed, SessionCreated, Transaction
from kafka_zk.registry.client.events import SessionChanged

VERSION = 1
CREATED, CHANGED, DELETED = "created", "changed", "deleted"
SESSION_BEGAN, SESSION_ENDED = "session began", "session ended"
CHANGES = (CREATED, CHANGED, DELETED)
_CHANGES = "'created', 'changed', 'deleted'"  # as in the index, else SQLite does not use it
_GROUP_STEPS = "'RebalancePrepared', 'AssignmentCompleted'"
_SET_WATCHES = "'WatchArmed', 'WatchSeen'"
_WATCHES = f"{_SET_WATCHES}, 'WatchFired', 'WatchGone'"
_SESSION_CHANGES = f"'{SESSION_BEGAN}', '{SESSION_ENDED}'"
_FROM_ZOOKEEPER = f"{_CHANGES}, {_SESSION_CHANGES}"
_MOST_OUT_OF_ORDER = 500
"""So many entries may have been told later than others that happened after them."""
_LEAST_BETWEEN_CHECKPOINTS = 2_500
MOST_IN_MEMORY_BYTES = 256 * 1024 * 1024
_FORGOTTEN_SHARE = 8
"""When that is reached the oldest entries are forgotten, one in so many."""
_MOST_WATCHES = 100_000
"""So many of the latest entries are looked through for who watches what."""
_LAST = "\U0010ffff"
_BY_PARTITION = "'leader', 'owner', 'assigned'"
_STEM = "rtrim(lane, '0123456789')"
_SCHEMA = """
create table if not exists meta (key text primary key, value text);
create table if not exists entries (
    seq integer primary key, time_ms integer, actor text, kind text, path text, zxid integer, session integer,
    cause integer, certain integer, doc text
);
create index if not exists by_time on entries (time_ms, actor);
create index if not exists by_group_step on entries (time_ms)
    where kind in ('RebalancePrepared', 'AssignmentCompleted');
create index if not exists by_operator on entries (time_ms) where kind = 'OperatorActed';
create index if not exists by_change on entries (seq) where kind in ('created', 'changed', 'deleted');
create index if not exists by_session_change on entries (seq) where kind in ('session began', 'session ended');
create index if not exists by_path on entries (path, seq) where path != '';
create index if not exists by_cause on entries (cause);
create index if not exists by_session on entries (session) where session != 0;
create table if not exists checkpoints (seq integer primary key, znodes blob);
create table if not exists spans (
    id integer primary key, kind text, lane text, holder text, note text, from_ms integer, to_ms integer
);
create index if not exists by_lane on spans (kind, lane);
create index if not exists by_begin on spans (from_ms);
""" + SAMPLES
_COLUMNS = "seq, time_ms, actor, kind, path, zxid, session, cause, certain, doc"
_SHOWN = _COLUMNS.replace("doc", "without_secrets(path, doc)")


class Entry(NamedTuple):
    """One thing that happened. ``kind`` is one of ZooKeeper's here, or the class of an event; ``path`` "" for most."""

    seq: int
    time_ms: int
    actor: str
    kind: str
    path: str
    zxid: int
    session: int
    cause: int | None
    certain: bool
    document: Document


class Bucket(NamedTuple):
    """How many entries an actor has within a stretch of time that begins at ``from_ms``."""

    actor: str
    from_ms: int
    entry_count: int


class Span(NamedTuple):
    """``to_ms`` None: it lasts."""

    kind: str
    lane: str
    holder: str
    note: str
    from_ms: int
    to_ms: int | None


class Recording:
    """Entries to be added and read; one thread. Close it at the end.

    Args:
        path: a file, which is created or continued; None: in memory, of which it takes MOST_IN_MEMORY_BYTES at most.
        read_only: it is there, and nothing is added.
    Raises: NoRecording for a file that is none, or of another version; OSError.
    """

    def __init__(self, path: Path | None = None, *, read_only: bool = False) -> None:
        self._database = _open(path, read_only=read_only)
        self.is_bounded = path is None
        """In memory: the oldest entries go."""
        self.kept = "in memory" if path is None else f"in {path.name}"
        """Where it is, for people."""
        self.samples = Samples(self._database)
        self._sessions: dict[int, str] = {}
        self.first, self.count = 1, 0
        """The oldest entry that is there, 1 if there is none yet; and the latest one."""
        self._at = 0  # the moment of ``_tree``
        self._go_to_the_end()

    def close(self) -> None:
        self._database.close()

    # --- adding ---

    def add(self, events: Iterable[Event], transactions: Iterable[Transaction]) -> None:
        """Take what came since the last call.

        Raises: sqlite3.Error (a full disk, say); then nothing of this call is in the recording.
        """
        merged: list[tuple[int, int, Event | Transaction]] = [
            *((each.time_ms, 1, each) for each in events),
            *((each.time_ms, 0, each) for each in transactions),
        ]
        known = dict(self._sessions)
        try:
            with self._database:
                for _, _, each in sorted(merged, key=lambda item: item[:2]):
                    if isinstance(each, Transaction):
                        self._add_transaction(each)
                    else:
                        self._add_event(each)
        except BaseException:
            self._sessions = known
            self._go_to_the_end()
            raise
        self._checkpoint_if_due()
        while self.is_bounded and self.used_bytes > MOST_IN_MEMORY_BYTES and self.first < self.count:
            self._forget_oldest()

    def _go_to_the_end(self) -> None:
        """Of what is in the database."""
        self._causality = Causality()
        self._since_checkpoint = 0
        self.first, self.count = self._row(
            "select (select coalesce(min(seq), 1) from entries), (select coalesce(max(seq), 0) from entries)"
        )
        self._tree = ZnodeTree()
        self._at = 0
        self._head = ZnodeTree(self.tree(self.count).znodes)

    def _add_event(self, event: Event) -> None:
        if isinstance(event, SessionChanged) and event.session_id:
            self._name_session(event.session_id, event.actor)
        cause = self._causality.of_event(event)
        path = getattr(event, "path", "")
        seq = self._insert(event.time_ms, event.actor, type(event).__name__, path, event.zxid, 0, cause, encode(event))
        if (ended := self._causality.told(seq, event)) is not None:
            self._database.execute("update entries set cause = ?, certain = 0 where seq = ?", (seq, ended))
        if isinstance(event, AssignmentCompleted | MemberDeparted):
            for each in assigned(event, self._held(assigned_lanes(event.group_id))):
                self._add_span(event.time_ms, *each)

    def _held(self, stem: str) -> dict[str, str]:
        """Who holds what of a group of the broker now."""
        rows = self._database.execute(
            "select lane, holder from spans where kind = 'assigned' and lane between ? and ? and to_ms is null "
            "and holder != ''",
            (stem, f"{stem}{_LAST}"),
        )
        return {lane: holder for lane, holder in rows if ": " not in lane.removeprefix(stem)}

    def _add_transaction(self, transaction: Transaction) -> None:
        end = None
        for operation in transaction.operations:
            if isinstance(operation, SessionCreated):
                document: Document = {"session": transaction.session, "timeout_ms": operation.timeout_ms}
                self._add_zookeeper(transaction, SESSION_BEGAN, "", None, document)
            elif isinstance(operation, SessionClosed):
                document = {"session": transaction.session}
                actor, at_ms = self._actor(transaction.session), transaction.time_ms
                cause = self._causality.of_session_end(actor, at_ms, self._timeout_ms(transaction.session))
                end = self._add_zookeeper(transaction, SESSION_ENDED, "", cause, document)
                if cause is None:
                    self._causality.ended(end, actor, at_ms)
        for change in self._head.take(transaction):
            self._add_change(transaction, change, end)

    def _timeout_ms(self, session: int) -> int:
        """As agreed when the session began; 0: that is not in the recording."""
        found = self._entries("where session = ? and session != 0 order by seq limit 1", _signed(session))
        return int(found[0].document["timeout_ms"]) if found and found[0].kind == SESSION_BEGAN else 0

    def _add_change(self, transaction: Transaction, change: Change, end: int | None) -> None:
        kind = CREATED if change.before is None else DELETED if change.after is None else CHANGED
        if change.after is not None and (name := session_name(change)):
            self._name_session(change.after.session, name)
        actor = self._actor(transaction.session)
        cause = self._causality.of_change(actor, transaction.time_ms, end)
        seq = self._add_zookeeper(transaction, kind, change.path, cause, change_document(change))
        self._causality.changed(seq, transaction.zxid, change.path, created_or_deleted=kind != CHANGED)
        self._since_checkpoint += 1
        if (held := hold(change)) is not None:
            self._add_span(transaction.time_ms, *held)

    def _add_zookeeper(
        self, transaction: Transaction, kind: str, path: str, cause: Cause | None, document: Document
    ) -> int:
        zxid, session = transaction.zxid, transaction.session
        return self._insert(transaction.time_ms, self._actor(session), kind, path, zxid, session, cause, document)

    def _add_span(self, time_ms: int, kind: str, lane: str, holder: str, note: str) -> None:
        last = self._database.execute(
            "select id, holder, note from spans where kind = ? and lane = ? order by id desc limit 1", (kind, lane)
        ).fetchone()
        if last is not None and last[1:] == (holder, note):
            return
        if last is not None:
            self._database.execute("update spans set to_ms = ? where id = ?", (time_ms, last[0]))
        values = (kind, lane, holder, note, time_ms)
        self._database.execute("insert into spans (kind, lane, holder, note, from_ms) values (?, ?, ?, ?, ?)", values)

    def _insert(
        self,
        time_ms: int,
        actor: str,
        kind: str,
        path: str,
        zxid: int,
        session: int,
        cause: Cause | None,
        document: Document,
    ) -> int:
        self.count += 1
        seq, certain = (cause.seq, int(cause.certain)) if cause is not None else (None, 0)
        names = (documents.storable(actor), kind, documents.storable(path))
        row = (self.count, time_ms, *names, zxid, _signed(session), seq, certain, json.dumps(document))
        self._database.execute(f"insert into entries ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return self.count

    def _actor(self, session: int) -> str:
        if session not in self._sessions:
            row = self._row("select actor from entries where session = ? and session != 0 limit 1", _signed(session))
            self._sessions[session] = row[0] if row is not None else unnamed(session)
        return self._sessions[session]

    def _name_session(self, session: int, actor: str) -> None:
        """What the session did before anybody knew whose it is, that actor did."""
        if session and self._actor(session) != actor:
            self._sessions[session] = actor
            self._database.execute("update entries set actor = ? where session = ?", (actor, _signed(session)))

    def _checkpoint_if_due(self) -> None:
        """So often that all checkpoints together are at most about twice as large as the changes."""
        if self._since_checkpoint < max(_LEAST_BETWEEN_CHECKPOINTS, len(self._head.znodes) // 2):
            return
        self._since_checkpoint = 0
        with self._database:
            self._database.execute(
                "insert or replace into checkpoints values (?, ?)", (self.count, _packed(self._head))
            )

    def _forget_oldest(self) -> None:
        """What was there before stays as a checkpoint."""
        last = self.first + (self.count - self.first) // _FORGOTTEN_SHARE
        kept = self.entry(last + 1)
        assert kept is not None, "there are later ones"
        packed = _packed(self.tree(last))
        with self._database:
            self._database.execute("delete from checkpoints where seq <= ?", (last,))
            self._database.execute("insert into checkpoints values (?, ?)", (last, packed))
            self._database.execute("delete from entries where seq <= ?", (last,))
            self._database.execute("delete from spans where to_ms < ?", (kept.time_ms,))
        self.first = last + 1
        heard_of = {session for (session,) in self._database.execute("select distinct session from entries")}
        owners = {znode.session for znode in self._head.znodes.values()}
        self._sessions = {
            session: name
            for session, name in self._sessions.items()
            if session in owners or _signed(session) in heard_of
        }

    @property
    def used_bytes(self) -> int:
        """The size of what is recorded."""
        pages = [self._row(f"pragma {name}")[0] for name in ("page_size", "page_count", "freelist_count")]
        return int(pages[0] * (pages[1] - pages[2]))

    @property
    def misses(self) -> str:
        """What is not there any more, for people; "" for nothing."""
        if self.first == 1 or not self.is_bounded:
            return ""
        size_mb = MOST_IN_MEMORY_BYTES >> 20
        return f"the first {self.first - 1} entries: in memory the last {size_mb} MB are kept, --record FILE keeps all"

    # --- what somebody says about the recording ---

    def note(self, key: str, value: str) -> None:
        with self._database:
            self._database.execute("insert or replace into meta values (?, ?)", (key, value))

    def notes(self) -> dict[str, str]:
        return dict(self._database.execute("select key, value from meta"))

    # --- reading ---

    def last_zxid(self) -> int:
        """Of the latest transaction; 0: there is none."""
        found = self._row(
            f"select zxid from entries where kind in ({_FROM_ZOOKEEPER}) and zxid > 0 order by seq desc limit 1"
        )
        return 0 if found is None else int(found[0])

    def times(self) -> tuple[int, int] | None:
        """The first and the last moment in ms; None: nothing happened yet."""
        # each by itself: together SQLite would read the whole index
        first, last = self._row("select (select min(time_ms) from entries), (select max(time_ms) from entries)")
        return None if first is None else (first, last)

    def tree(self, seq: int) -> ZnodeTree:
        """All znodes after this entry; for reading, until the next call."""
        seq = max(self.first - 1, min(seq, self.count))
        near, packed = self._database.execute(
            "select seq, znodes from checkpoints where seq <= ? order by seq desc limit 1", (seq,)
        ).fetchone() or (0, None)
        if abs(seq - self._at) > seq - near:
            znodes = {} if packed is None else json.loads(zlib.decompress(packed))
            shown = ((path, documents.shown_znode(path, each)) for path, each in znodes.items())
            self._tree = ZnodeTree({path: znode for path, znode in shown if znode is not None})
            self._at = near
        if seq >= self._at:
            for change in self._changes(self._at + 1, seq, "asc"):
                self._tree.apply(change)
        else:
            for change in self._changes(seq + 1, self._at, "desc"):
                self._tree.apply(change.undone)
        self._at = seq
        return self._tree

    def whole(self, seq: int) -> int:
        """The last entry of the transaction that this one belongs to: the znodes were never what they are between two
        of them."""
        entry = self.entry(seq)
        if entry is None or not entry.zxid:
            return seq
        other = self._row("select seq from entries where seq > ? and zxid != ? order by seq limit 1", seq, entry.zxid)
        return self.count if other is None else int(other[0]) - 1

    def _changes(self, first: int, last: int, order: str) -> Iterator[Change]:
        rows = self._database.execute(
            f"select without_secrets(path, doc) from entries where seq between ? and ? and kind in ({_CHANGES}) "
            f"order by seq {order}",
            (first, last),
        )
        return (change_of(json.loads(document)) for (document,) in rows)

    def actor_of(self, session: int) -> str:
        """Whose session that is; "" for 0."""
        return self._actor(session) if session else ""

    def entries(self, first: int, last: int, limit: int) -> list[Entry]:
        """By number, at most so many."""
        return self._entries("where seq between ? and ? order by seq limit ?", first, last, limit)

    def entry(self, seq: int) -> Entry | None:
        return next(iter(self._entries("where seq = ?", seq)), None)

    def effects(self, seq: int, limit: int) -> list[Entry]:
        """What this entry is the cause of."""
        return self._entries("where cause = ? order by seq limit ?", seq, limit)

    def between(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        """By time, at most so many."""
        return self._entries("where time_ms between ? and ? order by time_ms, seq limit ?", from_ms, to_ms, limit)

    def seq_at(self, time_ms: int) -> int:
        """The last entry of ZooKeeper or a process that is not later than this."""
        (seq,) = self._row(
            "select coalesce(max(seq), 0) from "
            "(select seq from entries where time_ms <= ? order by time_ms desc limit ?)",
            time_ms, _MOST_OUT_OF_ORDER,
        )  # fmt: skip
        return int(seq)

    def density(self, from_ms: int, to_ms: int, width_ms: int) -> list[Bucket]:
        """How much each actor did, for a picture of more entries than can be drawn."""
        rows = self._database.execute(
            "select actor, ((time_ms - ?) / ?) * ? + ?, count(*) from entries where time_ms between ? and ? "
            "group by 1, 2 order by 2",
            (from_ms, width_ms, width_ms, from_ms, from_ms, to_ms),
        )
        return [Bucket(*row) for row in rows]

    def count_between(self, from_ms: int, to_ms: int) -> int:
        (count,) = self._row("select count(*) from entries where time_ms between ? and ?", from_ms, to_ms)
        return int(count)

    def lane_groups(self, from_ms: int, to_ms: int, limit: int) -> list[LaneGroup]:
        """The lanes of partitions that somebody held in this time, by topic."""
        rows = self._database.execute(
            f"select kind, {_STEM} as stem, count(distinct lane), min(from_ms), "
            "case when max(to_ms is null) then null else max(to_ms) end from spans "
            f"where kind in ({_BY_PARTITION}) and from_ms <= ? and (to_ms is null or to_ms >= ?) "
            "group by kind, stem having max(holder) != '' order by min(id) limit ?",
            (to_ms, from_ms, limit),
        )
        return [LaneGroup(*row) for row in rows]

    def spans_of(self, group: LaneGroup, from_ms: int, to_ms: int, limit: int, *, nobodys: bool = False) -> list[Span]:
        """Those of a group of lanes that touch this time; ``nobodys``: only those in which nobody held it."""
        return self._spans(
            f"kind = ? and lane between ? and ? and {_STEM} = ?{' and holder = ' + repr('') if nobodys else ''}",
            (group.kind, group.stem, f"{group.stem}{_LAST}", group.stem), from_ms, to_ms, limit,
        )  # fmt: skip

    def single_spans(self, from_ms: int, to_ms: int, limit: int) -> list[Span]:
        """Those of the controller, of brokers and of members that touch this time."""
        return self._spans("kind in ('controller', 'broker', 'member')", (), from_ms, to_ms, limit)

    def _spans(self, condition: str, values: tuple[str, ...], from_ms: int, to_ms: int, limit: int) -> list[Span]:
        rows = self._database.execute(
            f"select kind, lane, holder, note, from_ms, to_ms from spans where {condition} "
            "and from_ms <= ? and (to_ms is null or to_ms >= ?) order by kind, lane, from_ms limit ?",
            (*values, to_ms, from_ms, limit),
        )
        return [Span(*row) for row in rows]

    def holders(self, kind: str, limit: int) -> dict[str, str]:
        """Who holds the lanes of a kind now; those that nobody holds are not there."""
        rows = self._database.execute(
            "select lane, holder from spans where kind = ? and to_ms is null and holder != '' limit ?", (kind, limit)
        )
        return dict(rows.fetchall())

    def znode(self, path: str) -> Znode | None:
        """As it is now."""
        return self._head.znodes.get(path)

    def watchers(self, seq: int) -> dict[str, list[str]]:
        """Who watches which path after this entry, as processes or ZooKeeper told: whose last watch has not fired, and
        was set in a session that lives."""
        watches = self._database.execute(
            f"select path, actor, max(case when kind in ({_SET_WATCHES}) then time_ms end) "
            f"from entries where kind in ({_WATCHES}) and seq between ? and ? "
            f"group by path, actor having max(case when kind in ({_SET_WATCHES}) then seq else 0 end) > "
            f"max(case when kind in ({_SET_WATCHES}) then 0 else seq end) order by path, actor",
            (seq - _MOST_WATCHES, seq),
        )
        sessions = self._database.execute(
            f"select actor, max(case when kind = '{SESSION_BEGAN}' then time_ms else 0 end), "
            f"max(case when kind = '{SESSION_ENDED}' then time_ms end) "
            f"from entries where kind in ({_SESSION_CHANGES}) and seq <= ? group by session, actor",
            (seq,),
        )
        return standing(map(SetWatch._make, watches), map(Lifetime._make, sessions))

    def changes_of(self, path: str, seq: int, limit: int) -> list[Entry]:
        """The latest changes of a znode until this entry, the last first."""
        return self._entries(
            f"where path = ? and path != '' and seq <= ? and kind in ({_CHANGES}) order by seq desc limit ?",
            path, seq, limit,
        )  # fmt: skip

    def moves(self, from_ms: int, to_ms: int, limit: int) -> list[Move]:
        """The latest of the spans that begin in this time, in order, each with who held its lane before."""
        rows = self._database.execute(
            "select kind, lane, holder, (select holder from spans as p where p.kind = s.kind and p.lane = s.lane "
            "and p.id < s.id order by p.id desc limit 1), from_ms, to_ms from spans as s "
            "where from_ms between ? and ? order by from_ms desc, id desc limit ?",
            (from_ms, to_ms, limit),
        ).fetchall()
        return [Move(*row) for row in reversed(rows)]

    def group_steps(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        """The latest of what coordinators told of rebalances in this time, in order."""
        return self._entries(
            f"where kind in ({_GROUP_STEPS}) and time_ms between ? and ? order by time_ms desc, seq desc limit ?",
            from_ms, to_ms, limit,
        )[::-1]  # fmt: skip

    def operator_acts(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        """The latest of what somebody did to the cluster in this time, in order."""
        return self._entries(
            "where kind = 'OperatorActed' and time_ms between ? and ? order by time_ms desc, seq desc limit ?",
            from_ms, to_ms, limit,
        )[::-1]  # fmt: skip

    def kinds_between(self, from_ms: int, to_ms: int) -> dict[str, int]:
        """How many entries of each kind."""
        return dict(
            self._database.execute(
                "select kind, count(*) from entries where time_ms between ? and ? group by kind", (from_ms, to_ms)
            )
        )

    def first_from(self, time_ms: int) -> int:
        """The first entry that is not earlier; 0: there is none."""
        found = self._row("select seq from entries where time_ms >= ? order by time_ms, seq limit 1", time_ms)
        return 0 if found is None else int(found[0])

    def export(self, path: Path, first: int, last: int) -> None:
        """A recording of a stretch, which begins with the znodes as they were. Raises: OSError, sqlite3.Error."""
        packed = _packed(self.tree(first - 1))
        part = Recording(path)
        try:
            with part._database as target:
                target.execute("insert or replace into checkpoints values (?, ?)", (first - 1, packed))
                rows = self._database.execute(
                    f"select {_SHOWN} from entries where seq between ? and ?", (first, last)
                )
                target.executemany(f"insert into entries ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                target.executemany("insert into spans values (?, ?, ?, ?, ?, ?, ?)", self._all_spans(first, last))
                target.executemany("insert into samples values (?, ?, ?)", self._all_samples(first, last))
                target.executemany("insert or replace into meta values (?, ?)", self.notes().items())
        finally:
            part.close()

    def _all_spans(self, first: int, last: int) -> Iterator[Any]:
        begin, end = self.entry(first), self.entry(last)
        if begin is None or end is None:
            return iter(())
        return iter(
            self._database.execute(
                "select * from spans where from_ms <= ? and (to_ms is null or to_ms >= ?)", (end.time_ms, begin.time_ms)
            )
        )

    def _all_samples(self, first: int, last: int) -> list[Any]:
        begin, end = self.entry(first), self.entry(last)
        return self.samples.rows(begin.time_ms, end.time_ms) if begin and end else []

    def _entries(self, condition: str, *values: Any) -> list[Entry]:
        rows = self._database.execute(f"select {_SHOWN} from entries {condition}", values)
        return [Entry._make((*row[:8], bool(row[8]), json.loads(row[9]))) for row in rows]

    def _row(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()


def _open(path: Path | None, *, read_only: bool) -> sqlite3.Connection:
    if read_only and path is not None and not path.is_file():
        raise NoRecording(f"there is no recording {path}")
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode=ro" if read_only else str(path)
    try:
        database = sqlite3.connect(name, uri=read_only)
        database.create_function("without_secrets", 2, documents.without_secrets, deterministic=True)
    except sqlite3.Error as error:
        raise NoRecording(f"{path} cannot be opened: {error}") from error
    try:
        if not read_only:
            database.executescript(_SCHEMA)
            database.execute("insert or ignore into meta values ('version', ?)", (str(VERSION),))
            database.commit()
            database.execute("pragma synchronous = off")
        (version,) = database.execute("select value from meta where key = 'version'").fetchone() or ("?",)
    except sqlite3.DatabaseError as error:
        database.close()
        raise NoRecording(f"{path} is no recording: {error}") from error
    if version != str(VERSION):
        database.close()
        raise NoRecording(f"{path} is a recording of version {version}; this program reads version {VERSION}")
    return database


def _packed(tree: ZnodeTree) -> bytes:
    """A checkpoint."""
    znodes = {path: znode_document(znode) for path, znode in tree.znodes.items()}
    return zlib.compress(json.dumps(znodes).encode(), 1)


def _signed(session: int) -> int:
    """SQLite's integers are signed; ZooKeeper's session ids are, too, but are told as unsigned ones at times."""
    return session - (1 << 64) if session >= 1 << 63 else session

"""The entries of a recording: ZooKeeper's writes and the processes' events, numbered from 1."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka_zk.recorder.recording import documents
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.session_names import signed
from kafka_zk.recorder.recording.watchers import Lifetime, SetWatch, standing

CREATED, CHANGED, DELETED = "created", "changed", "deleted"
SESSION_BEGAN, SESSION_ENDED = "session began", "session ended"
CHANGES = (CREATED, CHANGED, DELETED)
FROM_ZOOKEEPER = (*CHANGES, SESSION_BEGAN, SESSION_ENDED)
SQL_CHANGES = "'created', 'changed', 'deleted'"
"""Spelled as in the index; otherwise SQLite would not use the index."""
_GROUP_STEPS = "'RebalancePrepared', 'AssignmentCompleted'"
_SET_WATCHES = "'WatchArmed', 'WatchSeen'"
_WATCHES = f"{_SET_WATCHES}, 'WatchFired', 'WatchGone'"
_FENCED = "'CommitRefused', 'ControllerIgnored'"
_OF_RECORDS = "'ReplicaSeen', 'RecordAcknowledged', 'RecordRead'"
_SESSION_CHANGES = f"'{SESSION_BEGAN}', '{SESSION_ENDED}'"
_FROM_ZOOKEEPER = f"{SQL_CHANGES}, {_SESSION_CHANGES}"
FIRST = "first"
"""Key in the table meta: the number of the oldest entry, if the table has older ones that only complete the state."""
_MOST_OUT_OF_ORDER = 500
"""Maximum number of later entries that may be recorded before an entry."""
_MOST_WATCHES = 100_000
"""Number of latest entries that are searched for watches."""
SCHEMA = """
create table if not exists entries (
    seq integer primary key, time_ms integer, actor text, kind text, path text, zxid integer, session integer,
    cause integer, certain integer, doc text
);
create index if not exists by_time on entries (time_ms, actor);
create index if not exists by_group_step on entries (time_ms)
    where kind in ('RebalancePrepared', 'AssignmentCompleted');
create index if not exists by_operator on entries (time_ms) where kind = 'OperatorActed';
create index if not exists by_fenced on entries (time_ms) where kind in ('CommitRefused', 'ControllerIgnored');
create index if not exists by_clients_seen on entries (actor, seq) where kind = 'ClientsSeen';
create index if not exists by_denial on entries (seq) where kind = 'Denied';
create index if not exists by_record on entries (seq) where kind in ('ReplicaSeen', 'RecordAcknowledged', 'RecordRead');
create index if not exists by_change on entries (seq) where kind in ('created', 'changed', 'deleted');
create index if not exists by_session_change on entries (seq) where kind in ('session began', 'session ended');
create index if not exists by_path on entries (path, seq) where path != '';
create index if not exists by_cause on entries (cause);
create index if not exists by_session on entries (session) where session != 0;
"""
COLUMNS = "seq, time_ms, actor, kind, path, zxid, session, cause, certain, doc"
SHOWN = COLUMNS.replace("doc", "without_secrets(path, doc)")


class Entry(NamedTuple):
    """``kind``: a ZooKeeper kind of this module, or the class of an event. ``path``: "" for most events. ``session``: 0
    for events. ``cause``: number of the causing entry, None if unknown. ``certain``: see ``causality``.
    """

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
    """``entry_count``: number of an actor's entries in an interval that begins at ``from_ms``."""

    actor: str
    from_ms: int
    entry_count: int


class Entries:
    """The entries of one recording, in the order of arrival. Raises sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.count: int
        """Number of the latest entry; 0 without entries."""
        (self.count,) = self._row("select coalesce(max(seq), 0) from entries")

    @property
    def first(self) -> int:
        """Number of the oldest entry; 1 without entries. Entries before it only complete the state at that point.

        The number is read each time, because another process may drop entries of the file.
        """
        (first,) = self._row(
            f"select coalesce((select cast(value as integer) from meta where key = '{FIRST}'), "
            "(select min(seq) from entries), 1)"
        )
        return int(first)

    # --- writing ---

    def add(self, entry: Entry) -> None:
        """The entry's number must be ``count`` + 1."""
        seq, time_ms, actor, kind, path, zxid, session, cause, certain, document = entry
        names = (documents.storable(actor), kind, documents.storable(path))
        row = (seq, time_ms, *names, zxid, signed(session), cause, int(certain), json.dumps(document))
        self._database.execute(f"insert into entries ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self.count = seq

    def set_likely_cause(self, seq: int, cause: int) -> None:
        """Set a cause that became known after the entry was recorded."""
        self._database.execute("update entries set cause = ?, certain = 0 where seq = ?", (cause, seq))

    def forget_until(self, last: int, in_force: Iterable[int]) -> None:
        """Drop the entries up to ``last``, except those ``in_force``."""
        self._database.execute(
            "delete from entries where seq <= ? and seq not in (select value from json_each(?))",
            (last, json.dumps(sorted(in_force))),
        )
        self._database.execute("insert or replace into meta values (?, ?)", (FIRST, str(last + 1)))

    def in_force(self, seq: int, sessions: Iterable[int], groups: Iterable[str]) -> set[int]:
        """The entries up to ``seq`` that still describe the state after ``seq``: the beginnings of live sessions and of
        ``sessions``, the last assignments of the broker groups ``groups``, each broker's last report about its clients,
        the watches that are set, and the last transaction.
        """
        found = {
            self._row("select min(seq) from entries where session = ? and session != 0 and seq <= ?", each, seq)[0]
            for each in map(signed, sessions)
        }
        alive = self._database.execute(
            f"select min(seq) from entries where kind in ({_SESSION_CHANGES}) and seq <= ? "
            f"group by session having max(kind = '{SESSION_ENDED}') = 0", (seq,),
        )  # fmt: skip
        found.update(began for (began,) in alive)
        assignments = self._database.execute(
            "select json_extract(doc, '$.group_id'), max(seq) from entries where kind = 'AssignmentCompleted' "
            f"and kind in ({_GROUP_STEPS}) and +seq <= ? group by 1", (seq,),
        )  # fmt: skip
        wanted = set(groups)
        found.update(last for group, last in assignments if group in wanted)
        found.update(each.seq for each in self.clients_seen(seq))
        found.add(self._last_transaction()[0])
        found.update(
            self._row(
                "select max(seq) from entries where path = ? and path != '' and actor = ? "  # "!=": as in the index
                f"and kind in ({_SET_WATCHES}) and seq <= ?", path, actor, seq,
            )[0]
            for path, actors in self.watchers(seq).items() for actor in actors
        )  # fmt: skip
        return {each for each in found if each is not None and each <= seq}

    def times_from(self, seq: int) -> Iterator[tuple[int, int]]:
        """Number and time of each entry from ``seq`` on, in their order."""
        return self._database.execute("select seq, time_ms from entries where seq >= ? order by seq", (seq,))

    def numbered(self, first: int, last: int, limit: int) -> list[Entry]:
        return self._entries("where seq between ? and ? order by seq limit ?", first, last, limit)

    def entry(self, seq: int) -> Entry | None:
        return next(iter(self._entries("where seq = ?", seq)), None)

    def effects(self, seq: int, limit: int) -> list[Entry]:
        return self._entries("where cause = ? order by seq limit ?", seq, limit)

    def whole(self, seq: int) -> int:
        """The last entry of the transaction of ``seq``: no state between a transaction's entries ever existed."""
        entry = self.entry(seq)
        if entry is None or not entry.zxid:
            return seq
        other = self._row("select seq from entries where seq > ? and zxid != ? order by seq limit 1", seq, entry.zxid)
        return self.count if other is None else int(other[0]) - 1

    def last_zxid(self) -> int:
        """The zxid of the latest transaction; 0 if there is no transaction."""
        return int(self._last_transaction()[1])

    def _last_transaction(self) -> tuple[int | None, int]:
        """The last entry of the latest transaction, and its zxid."""
        found: tuple[int, int] | None = self._row(
            f"select seq, zxid from entries where kind in ({_FROM_ZOOKEEPER}) and zxid > 0 order by seq desc limit 1"
        )
        return found or (None, 0)

    def changes_of(self, path: str, seq: int, limit: int) -> list[Entry]:
        return self._entries(
            f"where path = ? and path != '' and seq <= ? and kind in ({SQL_CHANGES}) order by seq desc limit ?",
            path, seq, limit,
        )  # fmt: skip

    def first_of_session(self, session: int) -> Entry | None:
        found = self._entries("where session = ? and session != 0 order by seq limit 1", signed(session))
        return next(iter(found), None)

    def watchers(self, seq: int) -> dict[str, list[str]]:
        """The watchers of each path after entry ``seq``: processes whose last watch there has not fired and belongs to
        a live session.
        """
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

    def times(self) -> tuple[int, int] | None:
        # Two subqueries: for min and max in one query, SQLite would read the whole index. "+" keeps it to that index.
        first, last = self._row(
            "select (select time_ms from entries where +seq >= ? order by time_ms limit 1), "
            "(select max(time_ms) from entries)",
            self.first,
        )
        return None if first is None else (first, last)

    def between(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        return self._entries("where time_ms between ? and ? order by time_ms, seq limit ?", from_ms, to_ms, limit)

    def seq_at(self, time_ms: int) -> int:
        """The last entry at or before ``time_ms``; 0 if there is no such entry."""
        (seq,) = self._row(
            "select coalesce(max(seq), 0) from "
            "(select seq from entries where time_ms <= ? order by time_ms desc limit ?)",
            time_ms, _MOST_OUT_OF_ORDER,
        )  # fmt: skip
        return int(seq)

    def first_from(self, time_ms: int) -> int:
        """The first entry from this time on; 0 if there is no such entry."""
        found = self._row(
            "select seq from entries where time_ms >= ? and +seq >= ? order by time_ms, seq limit 1",
            time_ms, self.first,
        )  # fmt: skip
        return 0 if found is None else int(found[0])

    def count_between(self, from_ms: int, to_ms: int) -> int:
        (count,) = self._row("select count(*) from entries where time_ms between ? and ?", from_ms, to_ms)
        return int(count)

    def density(self, from_ms: int, to_ms: int, width_ms: int) -> list[Bucket]:
        """Numbers of entries by actor and interval, for more entries than can be drawn one by one."""
        rows = self._database.execute(
            "select actor, ((time_ms - ?) / ?) * ? + ?, count(*) from entries where time_ms between ? and ? "
            "group by 1, 2 order by 2",
            (from_ms, width_ms, width_ms, from_ms, from_ms, to_ms),
        )
        return [Bucket(*row) for row in rows]

    def kinds_between(self, from_ms: int, to_ms: int) -> dict[str, int]:
        return dict(
            self._database.execute(
                "select kind, count(*) from entries where time_ms between ? and ? group by kind", (from_ms, to_ms)
            )
        )

    def group_steps(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        """The latest rebalance events of coordinators, sorted by time."""
        return self._latest(f"kind in ({_GROUP_STEPS})", from_ms, to_ms, limit)

    def operator_acts(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        return self._latest("kind = 'OperatorActed'", from_ms, to_ms, limit)

    def fenced(self, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        """The latest refusals of writes: an old controller's requests, and commits of members that are not owners."""
        return self._latest(f"kind in ({_FENCED})", from_ms, to_ms, limit)

    def clients_seen(self, seq: int) -> list[Entry]:
        """Each broker's last report about its clients, up to this entry."""
        latest = "select max(seq) from entries where kind = 'ClientsSeen' and seq <= ? group by actor"
        return self._entries(f"where seq in ({latest}) order by actor", seq)

    def denials(self, seq: int, limit: int) -> list[Entry]:
        return self._entries("where kind = 'Denied' and seq <= ? order by seq desc limit ?", seq, limit)

    def of_records(self, first: int, last: int, limit: int) -> list[Entry]:
        """The latest events of single records among these entries, in order."""
        return self._entries(
            f"where kind in ({_OF_RECORDS}) and seq between ? and ? order by seq desc limit ?", first, last, limit
        )[::-1]

    def _latest(self, condition: str, from_ms: int, to_ms: int, limit: int) -> list[Entry]:
        return self._entries(
            f"where {condition} and time_ms between ? and ? order by time_ms desc, seq desc limit ?",
            from_ms, to_ms, limit,
        )[::-1]  # fmt: skip

    def _entries(self, condition: str, *values: Any) -> list[Entry]:
        rows = self._database.execute(f"select {SHOWN} from entries {condition}", values)
        return [Entry._make((*row[:8], bool(row[8]), json.loads(row[9]))) for row in rows]

    def _row(self, query: str, *values: Any) -> Any:
        return self._database.execute(query, values).fetchone()

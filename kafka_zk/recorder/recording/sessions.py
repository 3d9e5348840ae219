"""The process of each session in a recording."""

import sqlite3
from collections.abc import Container, Mapping

from kafka_zk.recorder.recording.session_names import signed, unnamed


class Sessions:
    """Raises sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection, known: Mapping[int, str]) -> None:
        self._database = database
        self._names = dict(known)

    def known(self) -> dict[int, str]:
        return dict(self._names)

    def actor_of(self, session: int) -> str:
        """The session's process; a generated name if it is unknown."""
        if session not in self._names:
            row = self._database.execute(
                "select actor from entries where session = ? and session != 0 limit 1", (signed(session),)
            ).fetchone()
            self._names[session] = row[0] if row is not None else unnamed(session)
        return self._names[session]

    def owner(self, znode_session: int) -> str:
        """The process that owns an ephemeral znode; "" for other znodes, whose session is 0."""
        return self.actor_of(znode_session) if znode_session else ""

    def name(self, session: int, actor: str) -> None:
        """Name the session, also in entries recorded before its name was known."""
        if session and self.actor_of(session) != actor:
            self._names[session] = actor
            self._database.execute("update entries set actor = ? where session = ?", (actor, signed(session)))

    def keep(self, owners: Container[int]) -> None:
        """Forget the sessions that have no entries, except ``owners``."""
        recorded = {session for (session,) in self._database.execute("select distinct session from entries")}
        self._names = {
            session: name
            for session, name in self._names.items()
            if session in owners or signed(session) in recorded
        }

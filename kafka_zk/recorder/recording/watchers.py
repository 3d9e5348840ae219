"""Which watches stand at a moment: those that were set in a session that lives. Pure.

Nobody tells in which session a watch was set: a process sets watches in the latest one that it has. A broker that
restarts has two for a while, until ZooKeeper ends the one of its old process.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.recorder.recording.session_names import process_of


class SetWatch(NamedTuple):
    """Has not fired."""

    path: str
    actor: str
    set_ms: int


class Lifetime(NamedTuple):
    """A session of a process. ``began_ms`` 0: before everything that is known; ``ended_ms`` None: it lives."""

    process: str
    began_ms: int
    ended_ms: int | None


def standing(watches: Iterable[SetWatch], sessions: Iterable[Lifetime]) -> dict[str, list[str]]:
    """By path who watches it, in the order of ``watches``. One that was set in no known session stands."""
    latest_first: dict[str, list[Lifetime]] = {}
    for session in sorted(sessions, key=lambda each: each.began_ms, reverse=True):
        latest_first.setdefault(session.process, []).append(session)
    found: dict[str, list[str]] = {}
    for watch in watches:
        session_of_watch = _lived_at(watch.set_ms, latest_first.get(process_of(watch.actor), ()))
        if session_of_watch is None or session_of_watch.ended_ms is None:
            found.setdefault(watch.path, []).append(watch.actor)
    return found


def _lived_at(time_ms: int, latest_first: Iterable[Lifetime]) -> Lifetime | None:
    """The one that began last of those that lived then."""
    lived = (
        each
        for each in latest_first
        if each.began_ms <= time_ms and (each.ended_ms is None or time_ms <= each.ended_ms)
    )
    return next(lived, None)

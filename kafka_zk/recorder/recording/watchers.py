"""The watches that are set at a moment: those of live sessions. Pure.

Traces do not say in which session a watch was set, so the latest session of the process is assumed. A restarted broker
has two sessions until ZooKeeper ends the old one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.recorder.recording.session_names import process_of


class SetWatch(NamedTuple):
    """A watch that has not fired."""

    path: str
    actor: str
    set_ms: int


class Lifetime(NamedTuple):
    """A session of a process. ``began_ms``: 0 if before the recording. ``ended_ms``: None while it is alive."""

    process: str
    began_ms: int
    ended_ms: int | None


def standing(watches: Iterable[SetWatch], sessions: Iterable[Lifetime]) -> dict[str, list[str]]:
    """The processes with a set watch, by path. A watch without a known session counts as set."""
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
    lived = (
        each
        for each in latest_first
        if each.began_ms <= time_ms and (each.ended_ms is None or time_ms <= each.ended_ms)
    )
    return next(lived, None)

"""ZooKeeper's own episodes: outages of its servers or of all, and new leaders. Pure."""

from collections.abc import Iterable, Iterator

from kafka_zk.recorder.recording.holds import ENSEMBLE, OF_ZOOKEEPER, SERVER
from kafka_zk.recorder.recording.spans import Move
from kafka_zk.recorder.web.episodes import MOST_NAMES, NEAR_MS, NOBODY, Episode
from kafka_zk.recorder.zookeeper_health.events import ENSEMBLE as SUBJECT

LEADER = "leader"


def zookeeper_episodes(moves: Iterable[Move], now_ms: int) -> list[Episode]:
    """``moves``: sorted by time; those of other lanes are ignored."""
    told = (_told(each, now_ms) for each in _near(each for each in moves if each.kind in OF_ZOOKEEPER))
    return [each for each in told if each.text]


def _near(moves: Iterable[Move]) -> Iterator[list[Move]]:
    together: list[Move] = []
    for move in moves:
        if together and move.from_ms - together[-1].from_ms > NEAR_MS:
            yield together
            together = []
        together.append(move)
    if together:
        yield together


def _told(moves: list[Move], now_ms: int) -> Episode:
    down = [each for each in moves if each.holder == NOBODY]
    lasts = any(each.to_ms is None for each in down)
    ends = [*(now_ms if each.to_ms is None else each.to_ms for each in down), moves[-1].from_ms]
    begin_ms = (down or moves)[0].from_ms  # a return shortly before this outage ends an earlier outage
    return Episode(SUBJECT, _text(moves, down, lasts=lasts), begin_ms, max(ends), 0, lasts)


def _text(moves: list[Move], down: list[Move], *, lasts: bool) -> str:
    servers = sorted({_server(each) for each in down if each.kind == SERVER})
    named = ", ".join(servers[:MOST_NAMES]) + (f" and {len(servers) - MOST_NAMES} more" if servers[MOST_NAMES:] else "")
    out = ""
    if any(each.kind == ENSEMBLE for each in down):
        out = f"{'does not serve' if lasts else 'did not serve'}{f' ({named})' if named else ''}; no election possible"
    elif servers:
        out = f"no answer from {named}"
    led = [_server(each) for each in moves if each.holder == LEADER and each.previous is not None]
    return "; ".join(part for part in (out, f"{led[-1]} became the leader" if led else "") if part)


def _server(move: Move) -> str:
    return move.lane.rpartition(" ")[2]

"""Finds the cause of each entry of a recording as entries arrive. Pure.

An edge is *certain* if ZooKeeper or the process itself states it:

- A watch fires for a change of its znode of the kind that the watch reports.
- A read follows a watch that fired.
- Ephemeral znodes end with their session.
- An event names its change's zxid.

Other edges are only *likely*:

- A broker's new role follows the last write of the partition's state.
- The end of a session and a new registration follow an operator's act on the process.
- A registration follows the end of the process's last session.
- The end of a session or connection follows an outage of ZooKeeper.
- Any other entry follows the process's last reported event.

The page draws likely edges dotted.
"""

import re
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from kafka_zk.base.events import Event
from kafka_zk.broker.group.events import MemberJoined
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.security.events import Denied
from kafka_zk.recorder.recording.session_names import process_of
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.zookeeper_health.answers import DOWN
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged, ZooKeeperEvent
from kafka_zk.registry.client.client import EventType, SessionState
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired
from kafka_zk.registry.znodes import topics

CLOSELY_MS = 1_000
"""Maximum age of a reported event that is a likely cause."""
ACTED_MS = 30_000
"""Maximum age of an operator's act that is a likely cause of a session's end; or the session timeout, if longer."""
LATE_END_MS = 5_000
"""ZooKeeper checks once per tick, so it may end a session late."""
TOLD_LATE_MS = 2_000
"""Maximum time from an effect to the report of the act that caused it."""
STALE_MS = 5_000
"""A watch that was set this long after a change cannot have fired for that change."""
_ENDS_SESSIONS = frozenset(("kill", "pause", "expire", "cut", "delay", "fill-disk", "leave", "crash"))
_BEGINS_SESSIONS = frozenset(("join", "restart"))
_UNDOES = {"resume": ("pause",), "mend": ("cut", "delay"), "free-disk": ("fill-disk",)}
_OF_CLIENTS = (ClientsSeen, Denied)
"""Reports about clients are neither causes nor effects."""
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_KEPT = 200_000
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cause(NamedTuple):
    """``seq``: number of the causing entry."""

    seq: int
    certain: bool


class Explained(NamedTuple):
    """The entry ``seq`` has this likely cause, which was reported after it."""

    seq: int
    cause: int


class _Told(NamedTuple):
    seq: int
    time_ms: int


class _Act(NamedTuple):
    seq: int
    time_ms: int
    action: str


class _Outage(NamedTuple):
    """An outage of ZooKeeper. ``seq``: the entry of its beginning. ``to_ms``: None while it lasts."""

    seq: int
    from_ms: int
    to_ms: int | None


class Causality:
    """Latest entries by path and by process, in bounded memory."""

    def __init__(self) -> None:
        self._changed: dict[tuple[str, EventType], _Told] = {}
        self._armed: dict[tuple[str, str], int] = {}  # actor, path -> time in ms
        self._by_zxid: dict[int, int] = {}
        self._fired: dict[tuple[str, str], int] = {}
        self._reread: dict[tuple[str, str], int] = {}
        self._last: dict[str, _Told] = {}
        self._acts: dict[str, _Act] = {}
        self._ended: dict[str, _Told] = {}
        self._server_changed = _Told(0, 0)
        self._outage: _Outage | None = None
        self._last_end: dict[str, _Told] = {}
        self._starts: dict[str, _Told] = {}  # acts that start a process, by target
        self._begun: dict[str, list[_Told]] = {}

    def of_change(self, actor: str, time_ms: int) -> Cause | None:
        last = self._last.get(process_of(actor))
        if last is None or time_ms - last.time_ms > CLOSELY_MS:
            return None
        return Cause(last.seq, certain=False)

    def of_session_end(self, actor: str, time_ms: int, timeout_ms: int) -> Cause | None:
        """``timeout_ms``: 0 if unknown."""
        act = self._acts.pop(actor, None)  # an act ends only one session
        latest_ms = max(ACTED_MS, timeout_ms + LATE_END_MS)
        if act is None or time_ms - act.time_ms > latest_ms:
            return self._of_outage(time_ms, latest_ms)
        return Cause(act.seq, certain=False)

    def ended(self, seq: int, actor: str, time_ms: int, cause: Cause | None) -> None:
        """Remember the end of a session. ``cause``: None if unknown."""
        if cause is None:
            _remember(self._ended, actor, _Told(seq, time_ms))
        _remember(self._last_end, actor, _Told(seq, time_ms))

    def of_registration(self, actor: str, time_ms: int, seqs: Iterable[int]) -> Cause | None:
        """The process ``actor`` registers in a new session. Returns the likely cause, if it is known.

        Args:
            seqs: the entries of the session's beginning and of the registration.
        """
        found = self._starts.pop(actor, None) or self._last_end.get(actor)
        if found is not None and time_ms - found.time_ms <= ACTED_MS:
            return Cause(found.seq, certain=False)
        _remember(self._begun, actor, [_Told(seq, time_ms) for seq in seqs])
        return None

    def changed(self, seq: int, zxid: int, path: str, time_ms: int, how: EventType) -> None:
        """``how``: CREATED, CHANGED or DELETED."""
        told = _Told(seq, time_ms)
        _remember(self._changed, (path, how), told)
        _remember(self._by_zxid, zxid, seq)
        if how is not EventType.CHANGED:
            _remember(self._changed, (path.rpartition("/")[0] or "/", EventType.CHILD), told)

    def of_event(self, event: Event) -> Cause | None:
        found: int | None = None
        if isinstance(event, _OF_CLIENTS):
            return None
        if isinstance(event, ZooKeeperEvent):
            is_verdict = isinstance(event, EnsembleStateChanged) and self._server_changed.time_ms == event.time_ms
            return Cause(self._server_changed.seq, certain=True) if is_verdict else None
        if isinstance(event, SessionChanged) and event.state is not SessionState.CONNECTED:
            return self._of_outage(event.time_ms, CLOSELY_MS)
        if isinstance(event, WatchFired):
            return self._of_watch(event)
        if isinstance(event, Reread):
            found = self._fired.get((event.actor, event.path))
        elif isinstance(event, WatchArmed):
            found = self._reread.get((event.actor, event.path))
        if found is None and event.zxid:
            found = self._by_zxid.get(event.zxid)
        if found is not None:
            return Cause(found, certain=True)
        if isinstance(event, RoleChanged):
            found = self._written(topics.state_path(event.partition.topic, event.partition.partition))
            if found is not None:
                return Cause(found, certain=False)
        if isinstance(event, OperatorActed):
            return None
        if isinstance(event, MemberJoined) and event.is_new and (joined := _member(event)) in self._starts:
            return Cause(self._starts.pop(joined).seq, certain=False)
        last = self._last.get(process_of(event.actor))
        if last is None or isinstance(event, SessionChanged) or event.time_ms - last.time_ms > CLOSELY_MS:
            return None
        return Cause(last.seq, certain=False)

    def _of_watch(self, event: WatchFired) -> Cause | None:
        change = self._changed.get((event.path, event.type))
        if change is None:
            return None
        armed_ms = self._armed.get((event.actor, event.path), 0)
        return Cause(change.seq, certain=armed_ms <= change.time_ms + STALE_MS)

    def _written(self, path: str) -> int | None:
        found = [self._changed.get((path, how)) for how in (EventType.CREATED, EventType.CHANGED)]
        return max((each.seq for each in found if each is not None), default=None)

    def told(self, seq: int, event: Event) -> list[Explained]:
        """Take an event. If it reports an operator's act, returns the earlier entries that the act caused."""
        explained: list[Explained] = []
        if isinstance(event, WatchArmed):
            _remember(self._armed, (event.actor, event.path), event.time_ms)
        elif isinstance(event, WatchFired):
            _remember(self._fired, (event.actor, event.path), seq)
        elif isinstance(event, Reread):
            _remember(self._reread, (event.actor, event.path), seq)
        elif isinstance(event, ServerStateChanged):
            self._server_changed = _Told(seq, event.time_ms)
        elif isinstance(event, EnsembleStateChanged):
            self._outage = _outage(self._outage, seq, event)
        elif isinstance(event, OperatorActed):
            explained = self._acted(seq, event)
        if not isinstance(event, (WatchArmed, ZooKeeperEvent, *_OF_CLIENTS)):
            self._last[process_of(event.actor)] = _Told(seq, event.time_ms)
        return explained

    def _of_outage(self, time_ms: int, latest_ms: int) -> Cause | None:
        """The outage of ZooKeeper at that time, or one that ended at most ``latest_ms`` before; None without
        one."""
        outage = self._outage
        if outage is None or time_ms < outage.from_ms:
            return None
        is_over = outage.to_ms is not None and time_ms - outage.to_ms > latest_ms
        return None if is_over else Cause(outage.seq, certain=False)

    def _acted(self, seq: int, act: OperatorActed) -> list[Explained]:
        begun = self._started(seq, act) if act.action in _BEGINS_SESSIONS else []
        return [*begun, *self._stopped(seq, act)]

    def _started(self, seq: int, act: OperatorActed) -> list[Explained]:
        target = target_of(act)
        begun = self._begun.pop(target, [])
        if begun and act.time_ms - begun[0].time_ms <= TOLD_LATE_MS:
            return [Explained(each.seq, seq) for each in begun]
        _remember(self._starts, target, _Told(seq, act.time_ms))
        return []

    def _stopped(self, seq: int, act: OperatorActed) -> list[Explained]:
        target = target_of(act)
        if target in self._acts and self._acts[target].action in _UNDOES.get(act.action, ()):
            del self._acts[target]
        if act.action not in _ENDS_SESSIONS:
            return []
        ended = self._ended.pop(target, None)  # a later act cannot have ended this session
        if ended is not None and abs(act.time_ms - ended.time_ms) <= TOLD_LATE_MS:
            return [Explained(ended.seq, seq)]
        _remember(self._acts, target, _Act(seq, act.time_ms, act.action))
        return []


def _outage(known: _Outage | None, seq: int, event: EnsembleStateChanged) -> _Outage | None:
    if event.state in DOWN:
        return known if known is not None and known.to_ms is None else _Outage(seq, event.time_ms, None)
    return None if known is None else known._replace(to_ms=event.time_ms if known.to_ms is None else known.to_ms)


def target_of(act: OperatorActed) -> str:
    """The process that is the act's target: ``broker 1`` is broker-1, ``board/anna`` is the member board_anna."""
    return act.target.replace("broker ", "broker-", 1) if "/" not in act.target else act.target.replace("/", "_", 1)


def _member(event: MemberJoined) -> str:
    """The name of an act's target for a new member of a broker's group: without the random end of its id."""
    return f"{event.group_id}_{_UUID.sub('', event.member)}"


def _remember(known: dict[Key, Value], key: Key, value: Value) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]

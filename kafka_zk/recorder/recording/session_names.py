"""Names of sessions, from their ephemeral znodes. Pure."""

import re

from kafka_zk.recorder.recording.znode_tree import Change

ZOOKEEPER = "ZooKeeper"
"""The actor of the deletion of an ended session's ephemeral znodes, because their owner may be dead."""
_CONTROLLER = "controller-"
_BROKER = re.compile(r"/brokers/ids/(\d+)")
_MEMBER = re.compile(r"/consumers/[^/]+/ids/([^/]+)")


def session_name(change: Change) -> str | None:
    """``broker-0``, or a consumer id, for the session that created this znode. None if the znode does not name it."""
    if change.after is None or not change.after.session:
        return None
    if found := _BROKER.fullmatch(change.path):
        return f"broker-{found[1]}"
    found = _MEMBER.fullmatch(change.path)
    return found[1] if found else None


def unnamed(session: int) -> str:
    return f"session {session & (1 << 64) - 1:#x}"


def process_of(actor: str) -> str:
    """The process whose session this actor uses: a controller uses its broker's."""
    return f"broker-{actor.removeprefix(_CONTROLLER)}" if actor.startswith(_CONTROLLER) else actor


def signed(session: int) -> int:
    """A session id as a signed integer, as SQLite stores it; some sources report it unsigned."""
    return session - (1 << 64) if session >= 1 << 63 else session

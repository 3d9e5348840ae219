"""Whose a session is, as its ephemeral znodes tell. Pure."""

import re

from kafka_zk.recorder.recording.znode_tree import Change

_CONTROLLER = "controller-"
_BROKER = re.compile(r"/brokers/ids/(\d+)")
_MEMBER = re.compile(r"/consumers/[^/]+/ids/([^/]+)")


def session_name(change: Change) -> str | None:
    """The process whose session created this znode: ``broker-0``, or a consumer id; None: the znode does not tell."""
    if change.after is None or not change.after.session:
        return None
    if found := _BROKER.fullmatch(change.path):
        return f"broker-{found[1]}"
    found = _MEMBER.fullmatch(change.path)
    return found[1] if found else None


def unnamed(session: int) -> str:
    """A session of which nobody knows whose it is."""
    return f"session {session & (1 << 64) - 1:#x}"


def process_of(actor: str) -> str:
    """Whose session this actor uses: the controller is a broker in its office."""
    return f"broker-{actor.removeprefix(_CONTROLLER)}" if actor.startswith(_CONTROLLER) else actor


def signed(session: int) -> int:
    """SQLite's integers are signed; ZooKeeper's session ids are, too, but are told as unsigned ones at times."""
    return session - (1 << 64) if session >= 1 << 63 else session

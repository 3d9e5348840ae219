"""Sessions end with their last ephemeral znode, as far as watches show it."""

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.narration import line
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Deleted, SessionClosed, Transaction
from kafka_zk.recorder.zookeeper_files.tree_watcher import with_session_ends

IDS, CONTROLLER, OWNER = "/brokers/ids/0", "/controller", "/consumers/g/owners/t/0"


def created(path: str, session: int) -> Transaction:
    return Transaction(9, 90, session, (Created(path, b"0", ephemeral=bool(session)),))


def deleted(path: str, session: int, at_ms: int = 100) -> Transaction:
    return Transaction(0, at_ms, session, (Deleted(path),))


def ended(session: int, *paths: str, at_ms: int = 100) -> Transaction:
    return Transaction(0, at_ms, session, (SessionClosed(paths, inferred=True),))


def test_the_last_ephemeral_znodes_of_a_session_go_with_it() -> None:
    """The znodes disappear at the moment of the first one; changes of other sessions keep their order."""
    changed = Transaction(12, 105, 0, (DataSet("/a", b"", 3),))
    seen = [deleted(IDS, 7, 101), changed, created(CONTROLLER, 8), deleted(CONTROLLER, 7, 102)]
    assert with_session_ends(seen, {0, 8}) == [ended(7, IDS, CONTROLLER, at_ms=101), changed, created(CONTROLLER, 8)]


def test_a_session_that_keeps_an_ephemeral_znode_goes_on() -> None:
    """The member releases a partition; which session deleted the znode is unknown."""
    assert with_session_ends([deleted(OWNER, 7), deleted("/a", 0)], {0, 7}) == [deleted(OWNER, 0), deleted("/a", 0)]


def test_what_a_session_created_after_a_deletion_begins_anew() -> None:
    seen = [deleted(OWNER, 7), created(OWNER, 7), deleted(OWNER, 7), deleted(IDS, 7)]
    assert with_session_ends(seen, {0}) == [deleted(OWNER, 0), created(OWNER, 7), ended(7, OWNER, IDS)]


def test_a_recording_says_that_the_end_is_inferred_and_its_effects_are_likely() -> None:
    recording = Recording()
    recording.add([], [created(IDS, 7), created(CONTROLLER, 7)])
    recording.add([], with_session_ends([deleted(CONTROLLER, 7), deleted(IDS, 7)], {0}))
    end, *gone = recording.entries.numbered(3, 9, 9)
    assert line(end) == "the session of broker-0 ended, as the end of its last ephemeral znode shows"
    assert [(each.kind, each.path, each.cause, each.certain) for each in gone] == [
        ("deleted", CONTROLLER, end.seq, False), ("deleted", IDS, end.seq, False)
    ]  # fmt: skip
    assert recording.znodes.after(recording.entries.count).znodes == {}

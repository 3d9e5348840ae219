"""A play begins with what led to it, and has each process's part."""

from kafka_zk.rebalance.events import DeliveryStopped, RebalanceStarted
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Deleted, Operation, SessionClosed, Transaction
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchFired

BROKER, ANNA, BEN = 1, 2, 3
"""Sessions."""
IDS = "/brokers/ids"
OWNERS = "/consumers/g/owners/t"


def test_a_rebalance_begins_with_the_watches_and_decisions_of_all_members() -> None:
    """Its line begins with the first partition that is released, but the members knew before."""
    recording = Recording()

    def written(time_ms: int, session: int, *operations: Operation) -> None:
        recording.add([], [Transaction(recording.entries.last_zxid() + 1, time_ms, session, operations)])

    written(1_000, BROKER, Created(f"{IDS}/1", b"{}", ephemeral=True))
    for number, (member, session) in enumerate((("g_anna", ANNA), ("g_ben", BEN))):
        written(1_000, session, Created(f"/consumers/g/ids/{member}", b"{}", ephemeral=True))
        written(1_000, session, Created(f"{OWNERS}/{number}", f"{member}-0".encode(), ephemeral=True))
    written(9_000, BROKER, SessionClosed(None))
    for member, time_ms in (("g_ben", 9_001), ("g_anna", 9_002)):
        fired = WatchFired(time_ms, member, "child", 0, IDS, EventType.CHILD)
        reads = Reread(time_ms + 1, member, "child", 0, IDS, True)
        starts = RebalanceStarted(time_ms + 2, member, "brokers changed", 0, "range", 0)
        recording.add([fired, reads, starts, DeliveryStopped(time_ms + 3, member, "rebalance", 0, ())], [])
    written(9_010, ANNA, Deleted(f"{OWNERS}/0"))
    written(9_011, BEN, Deleted(f"{OWNERS}/1"))
    api = RecordingApi(recording)
    [*_, episode] = api.episodes({"from_ms": "0", "to_ms": "99000"})["episodes"]
    assert (episode["subject"], episode["from_ms"]) == ("group g", 9_010)
    steps = api.play({name: str(value) for name, value in episode.items()})["steps"]
    told = [(each["label"], each["znode"]) for each in steps]
    assert told[:2] == [("closes its session", ""), ("deletes", f"{IDS}/1")]
    assert told[-2:] == [("deletes", f"{OWNERS}/0"), ("deletes", f"{OWNERS}/1")]
    parts = [("watch fires", IDS), ("reads", IDS), ("rebalance started", ""), ("delivery stopped", "")]
    assert sorted(told[2:-2]) == sorted(2 * parts)

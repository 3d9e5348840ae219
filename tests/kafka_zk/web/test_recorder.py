"""The recorder goes on whatever happens, and says what is wrong."""

from typing import Any

from twisted.internet.task import Clock

from kafka_zk.registry.transaction_log import Created, Transaction
from kafka_zk.web.recorder import INTERVAL_S, RETRY_POLLS, Recorder
from kafka_zk.web.recording import Recording


class Source:
    described, misses = "", ""

    def __init__(self) -> None:
        self.next: list[Any] = []

    def read(self) -> list[Transaction]:
        found, self.next = self.next, []
        for each in found:
            if isinstance(each, Exception):
                raise each
        return found

    def close(self) -> None: ...




def changed(zxid: int) -> Transaction:
    return Transaction(zxid, zxid, 7, (Created(f"/z{zxid}", None, ephemeral=False),))


def test_it_goes_on_after_what_nobody_foresaw() -> None:
    """An unreadable folder is tried again; what cannot be stored at all is counted as lost, and does not stop it."""
    clock, source, recording = Clock(), Source(), Recording()
    recorder = Recorder(clock, recording, source, None)
    recorder.start()
    for trouble in (OSError("no such folder"), ValueError("nonsense")):
        source.next = [trouble]
        clock.advance(INTERVAL_S)
        assert str(trouble) in recorder.problem
        source.next = [changed(recording.count + 1)]
        clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
        assert recorder.problem == ""
    source.next = [changed(1 << 70)]
    clock.advance(INTERVAL_S)
    assert (recorder.lost_count, bool(recorder.problem)) == (1, True)
    source.next = [changed(9)]
    clock.pump([INTERVAL_S] * (RETRY_POLLS + 1))
    assert sorted(recording.tree(recording.count).znodes) == ["/z1", "/z2", "/z9"]
    recorder.stop()

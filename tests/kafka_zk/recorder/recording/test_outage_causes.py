"""The events that an outage of ZooKeeper probably causes, and those that it does not."""

from kafka_zk.recorder.recording.causality import ACTED_MS, CLOSELY_MS, Causality, Cause
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.events import SessionChanged

LIKELY = Cause(2, certain=False)


def an_outage() -> Causality:
    """An outage that lasts from 10 s to 50 s."""
    causality = Causality()
    causality.told(1, ServerStateChanged(10_000, "ZooKeeper zk1:2181", "refused", 0, "no answer", "standalone", 0))
    down = EnsembleStateChanged(10_000, "ZooKeeper", "refused", 0, "no answer", "serves", 0)
    assert causality.of_event(down) == Cause(1, certain=True)
    causality.told(2, down)
    causality.told(3, EnsembleStateChanged(50_000, "ZooKeeper", "polled", 0, "serves", "no answer", 40_000))
    return causality


def changed(time_ms: int, state: SessionState) -> SessionChanged:
    return SessionChanged(time_ms, "broker-0", "session", 0, state, 7)


def test_a_connection_that_is_lost_in_an_outage_is_lost_by_it() -> None:
    causality = an_outage()
    for time_ms, expected in ((9_999, None), (10_000, LIKELY), (50_000 + CLOSELY_MS, LIKELY), (55_001, None)):
        assert causality.of_event(changed(time_ms, SessionState.SUSPENDED)) == expected, time_ms
    assert causality.of_event(changed(20_000, SessionState.CONNECTED)) is None


def test_a_session_that_ends_after_an_outage_ended_by_it_unless_a_person_acted() -> None:
    causality = an_outage()
    assert causality.of_session_end("broker-0", 50_100, 6_000) == LIKELY
    assert causality.of_session_end("broker-0", 50_001 + ACTED_MS, 6_000) is None
    causality.told(4, OperatorActed(50_000, "you", "kill", 0, "kill", "broker 0", ""))
    assert causality.of_session_end("broker-0", 50_100, 6_000) == Cause(4, certain=False)


def test_one_server_of_several_causes_nothing() -> None:
    """A server's change does not cause its next change either."""
    causality = Causality()
    gone = ServerStateChanged(10_000, "ZooKeeper zk1:2181", "refused", 0, "no answer", "follower", 0)
    causality.told(1, gone)
    assert causality.of_event(changed(10_001, SessionState.SUSPENDED)) is None
    assert causality.of_event(gone) is None

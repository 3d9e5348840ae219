"""The meaning of rounds of polls: servers that leave and return, new leaders, slowness, and whether ZooKeeper serves.
"""

from kafka_zk.base.events import Event
from kafka_zk.recorder.zookeeper_health.answers import Reading
from kafka_zk.recorder.zookeeper_health.ensemble import EnsembleHealth, samples
from kafka_zk.recorder.zookeeper_health.events import (
    EnsembleStateChanged,
    LeaderChanged,
    ServerSlowed,
    ServerStateChanged,
)
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.events import SessionChanged

REFUSED = Reading("no answer", "connection refused")
SILENT = Reading("no answer", "no response within 2 s")
NO_QUORUM = Reading("no quorum", "it runs, but has no quorum or is starting")
CONNECTED, SUSPENDED = SessionState.CONNECTED, SessionState.SUSPENDED


def serving(
    mode: str,
    *,
    response_ms: int = 0,
    outstanding: int | None = None,
    connections: int | None = None,
    latency_max_ms: int | None = None,
    zxid: int | None = None,
) -> Reading:
    return Reading(mode, "", response_ms, outstanding, connections, latency_max_ms, zxid)


def states(events: list[Event]) -> list[tuple[str, str, str, int]]:
    return [
        (each.actor, each.state, each.previous, each.lasted_ms)
        for each in events if isinstance(each, ServerStateChanged | EnsembleStateChanged)
    ]  # fmt: skip


def test_an_outage_has_a_beginning_a_cause_and_a_length() -> None:
    """Rounds without a change have no events."""
    health = EnsembleHealth()
    up = {"zk1:2181": serving("standalone")}
    assert states(health.step(up, 1_000)) == [
        ("ZooKeeper zk1:2181", "standalone", "", 0), ("ZooKeeper", "serves", "", 0),
    ]  # fmt: skip
    assert health.step(up, 2_000) == []
    gone = health.step({"zk1:2181": SILENT}, 3_000)
    assert states(gone) == [
        ("ZooKeeper zk1:2181", "no answer", "standalone", 2_000), ("ZooKeeper", "no answer", "serves", 2_000),
    ]  # fmt: skip
    assert [each.cause for each in gone] == ["no response within 2 s", "zk1:2181: no response within 2 s"]
    assert {each.time_ms for each in gone} == {3_000}
    assert health.step({"zk1:2181": REFUSED}, 4_000) == []
    assert states(health.step(up, 43_000)) == [
        ("ZooKeeper zk1:2181", "standalone", "no answer", 40_000), ("ZooKeeper", "serves", "no answer", 40_000),
    ]  # fmt: skip


def ensemble(*readings: Reading) -> dict[str, Reading]:
    return {f"zk{number}:2181": each for number, each in enumerate(readings, 1)}


def test_one_of_three_servers_may_go_and_another_leads() -> None:
    """The ensemble serves throughout, until it loses its quorum."""
    health = EnsembleHealth()
    leader, follower = serving("leader", zxid=0x400000007), serving("follower", zxid=0x400000007)
    health.step(ensemble(leader, follower, follower), 0)
    later = serving("leader", zxid=0x500000001)
    found = health.step(ensemble(REFUSED, later, follower), 1_000)
    assert states(found) == [
        ("ZooKeeper zk1:2181", "no answer", "leader", 1_000), ("ZooKeeper zk2:2181", "leader", "follower", 1_000),
    ]  # fmt: skip
    assert [each for each in found if isinstance(each, LeaderChanged)] == [
        LeaderChanged(1_000, "ZooKeeper", "polled with srvr", 0, "zk2:2181", "zk1:2181", 5)
    ]
    found = health.step(ensemble(REFUSED, NO_QUORUM, REFUSED), 2_000)
    assert ("ZooKeeper", "no quorum", "serves", 2_000) in states(found)


def test_a_new_epoch_of_the_same_leader_is_told_of() -> None:
    health = EnsembleHealth()
    health.step(ensemble(serving("leader", zxid=1 << 32)), 0)
    [changed] = health.step(ensemble(serving("leader", zxid=2 << 32)), 1_000)
    assert isinstance(changed, LeaderChanged) and changed.epoch == 2


def test_two_that_call_themselves_leader_are_no_change() -> None:
    """The old leader does not know of the new one yet."""
    health = EnsembleHealth()
    health.step(ensemble(serving("leader", zxid=1 << 32), serving("follower")), 0)
    found = health.step(ensemble(serving("leader", zxid=1 << 32), serving("leader", zxid=2 << 32)), 1_000)
    assert not [each for each in found if isinstance(each, LeaderChanged)]


def test_a_server_is_slow_until_three_rounds_without_a_sign() -> None:
    """The longest latency counts only when it has grown, because it covers the time since the server's start. The time
    of the first response after an outage does not count.
    """
    health = EnsembleHealth()
    rounds = [
        (serving("standalone", latency_max_ms=5_000), None),
        (serving("standalone", latency_max_ms=5_001), "a request took 5001 ms"),
        (serving("standalone", latency_max_ms=5_001, outstanding=100), None), *[(serving("standalone"), None)] * 2,
        (serving("standalone"), "it responds quickly again"),
        (serving("standalone", outstanding=100), "100 requests wait"), (REFUSED, None),
        (serving("standalone", response_ms=900), None),
        (serving("standalone", response_ms=500), "it took 500 ms to respond"),
    ]  # fmt: skip
    for number, (reading, cause) in enumerate(rounds):
        found = health.step({"zk1:2181": reading}, number)
        told = [each.cause for each in found if isinstance(each, ServerSlowed)]
        assert told == ([] if cause is None else [cause]), number


def test_our_session_counts_where_no_server_answers_polls() -> None:
    """The servers may have TLS ports only. Nothing would report a server's return, so none is reported as down."""
    health = EnsembleHealth()
    found = health.step({"zk1:2181": Reading("no answer", "it closed the connection")}, 0, CONNECTED)
    assert states(found) == [("ZooKeeper", "serves", "", 0)]
    found = health.step({"zk1:2181": REFUSED}, 1_000, SUSPENDED)
    assert states(found) == [("ZooKeeper", "no answer", "serves", 1_000)], "the server is reported, too"
    assert SessionChanged(1_000, "recorder", "session suspended", 0, SUSPENDED, None) in found
    found = health.step({"zk1:2181": REFUSED}, 2_000, CONNECTED)
    assert states(found) == [("ZooKeeper", "serves", "no answer", 1_000)]


def test_without_a_session_silence_from_the_beginning_says_nothing() -> None:
    """The reason may be a TLS port or a firewall; once a server has responded, silence is an outage."""
    health = EnsembleHealth()
    assert health.step(ensemble(REFUSED, REFUSED), 0) == []
    assert states(health.step(ensemble(serving("leader"), REFUSED), 1_000)) == [
        ("ZooKeeper zk1:2181", "leader", "", 0), ("ZooKeeper zk2:2181", "no answer", "", 0),
        ("ZooKeeper", "serves", "", 0),
    ]  # fmt: skip


def test_an_outage_without_a_session_ends_when_a_server_answers_that_hides_its_mode() -> None:
    """Afterwards, as before the outage, it is not known whether ZooKeeper serves."""
    health = EnsembleHealth()
    rounds = (Reading("answers"), REFUSED, Reading("answers"), Reading("answers"), REFUSED)
    told = [states(health.step({"zk1:2181": each}, number)) for number, each in enumerate(rounds)]
    assert [[each for each in found if each[0] == "ZooKeeper"] for found in told] == [
        [], [("ZooKeeper", "no answer", "", 0)], [("ZooKeeper", "answers", "no answer", 1)], [],
        [("ZooKeeper", "no answer", "answers", 2)],
    ]  # fmt: skip


def test_a_server_that_hides_its_mode_serves_if_we_are_connected() -> None:
    for session, expected in ((CONNECTED, [("ZooKeeper", "serves", "", 0)]), (SUSPENDED, []), (None, [])):
        found = EnsembleHealth().step({"zk1:2181": Reading("answers")}, 0, session)
        assert [each for each in states(found) if each[0] == "ZooKeeper"] == expected


def test_numbers_are_sampled_in_steps_and_end_with_the_server() -> None:
    told = samples({"zk1:2181": serving("leader", response_ms=7, outstanding=2, connections=3, zxid=5 << 32)})
    assert told == {
        "zookeeper outstanding zk1:2181": 2, "zookeeper connections zk1:2181": 3,
        "zookeeper response_ms zk1:2181": 5, "zookeeper epoch zk1:2181": 5,
    }  # fmt: skip
    assert set(samples({"zk1:2181": SILENT}).values()) == {None}

"""Failovers, derived from the transactions of a real cluster and from invented ones."""

import json

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.failovers import Failovers
from kafka_zk.recorder.timeline.outage_events import (
    BrokerReturned,
    ControllerMoved,
    FailoverDone,
    IsrMoved,
    LeaderMoved,
    OutageEvent,
    OwnerLost,
)
from kafka_zk.recorder.timeline.sentences import sentence
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Operation,
    Restored,
    SessionClosed,
    SessionCreated,
    Transaction,
)
from tests.kafka_zk.recorder.outages import recorded

ONE, TWO = 0x11, 0x12
T0 = TopicPartition("orders", 0)
STATE = "/brokers/topics/orders/partitions/0/state"


def state(leader: int, *isr: int, epoch: int = 0) -> bytes:
    document = {"leader": leader, "isr": isr, "leader_epoch": epoch, "controller_epoch": 1, "version": 1}
    return json.dumps(document).encode()


def controller(broker_id: int, epoch: int, kraft_epoch: int = -1) -> tuple[Operation, ...]:
    claim = {"version": 2, "brokerid": broker_id, "timestamp": "1", "kraftControllerEpoch": kraft_epoch}
    return (
        Created("/controller", json.dumps(claim).encode(), ephemeral=kraft_epoch < 0),
        DataSet("/controller_epoch", b"%d" % epoch, epoch),
    )


class Told:
    """Each call of ``at`` is a transaction."""

    def __init__(self) -> None:
        self.failovers = Failovers()
        self._zxid = 0
        for number, session in enumerate((ONE, TWO), 1):
            self.at(0, session, SessionCreated(6_000), Created(f"/brokers/ids/{number}", b"{}", ephemeral=True))
        self.at(1, ONE, *controller(1, 1))

    def at(self, time_ms: int, session: int, *operations: Operation) -> list[OutageEvent]:
        self._zxid += 1
        return self.failovers.step(Transaction(self._zxid, time_ms, session, operations))


def test_the_controller_of_a_real_cluster_is_killed() -> None:
    """The controller's session expires, the other broker takes over within half a second, and the killed one comes
    back.
    """
    failovers = Failovers()
    events = [event for each in recorded("broker-killed", "/kafka") for event in failovers.step(each)]
    begin = next(number for number, event in enumerate(events) if isinstance(event, OwnerLost))
    lost, moved, *rest = events[begin:]
    assert isinstance(lost, OwnerLost) and isinstance(moved, ControllerMoved)
    assert (lost.owner, lost.expired, lost.timeout_ms, lost.ephemeral_count) == ("broker 1", True, 4_000, 2)
    assert (moved.before, moved.controller_id, moved.controller_epoch, moved.after_ms) == (1, 2, 2, 15)
    end = next(number for number, event in enumerate(rest) if isinstance(event, FailoverDone))
    leaders = [event for event in rest[:end] if isinstance(event, LeaderMoved)]
    assert [(str(each.partition), each.before, each.leader, each.isr) for each in leaders] == [
        ("orders-0", 1, -1, (2,)), ("orders-2", 1, -1, (2,)), ("orders-0", -1, 2, (2,)), ("orders-2", -1, 2, (2,)),
    ]  # fmt: skip
    assert [each.after_ms for each in leaders] == [455, 456, 477, 481]
    assert {str(each.partition) for each in rest[:end] if isinstance(each, IsrMoved)} == {
        "orders-1", "__consumer_offsets-0"
    }  # fmt: skip
    done = rest[end]
    assert isinstance(done, FailoverDone) and (done.moved_count, done.leaderless_count, done.after_ms) == (2, 0, 481)
    assert [each.after_ms for each in rest if isinstance(each, BrokerReturned)] == [7_745]
    assert [each.expired for each in rest if isinstance(each, OwnerLost)] == [False], "not one clean stop"
    assert failovers.end() == []


def test_a_leader_from_outside_the_isr_is_an_unclean_election() -> None:
    told = Told()
    told.at(2, ONE, Created(STATE, state(1, 1), ephemeral=False))
    told.at(100, ONE, SessionClosed(None, expired=True))
    told.at(110, TWO, *controller(2, 2))
    told.at(120, TWO, DataSet(STATE, state(-1, 1, epoch=1), 1))
    unclean, done = told.at(130, TWO, DataSet(STATE, state(2, 2, epoch=2), 2))
    assert isinstance(unclean, LeaderMoved) and unclean.is_unclean and unclean.after_ms == 30
    assert "UNCLEAN" in str(sentence(unclean)) and isinstance(done, FailoverDone)


def test_partitions_without_another_replica_stay_without_a_leader_until_the_broker_is_back() -> None:
    told = Told()
    told.at(2, ONE, Created(STATE, state(1, 1), ephemeral=False))
    told.at(100, ONE, SessionClosed(None, expired=True))
    told.at(120, TWO, DataSet(STATE, state(-1, 1, epoch=1), 1))
    [pending] = told.failovers.end()
    assert isinstance(pending, FailoverDone) and (pending.moved_count, pending.leaderless_count) == (0, 1)
    assert "not done" in str(sentence(pending))
    not_done, back = told.at(9_100, 0x13, Created("/brokers/ids/1", b"{}", ephemeral=True))
    assert isinstance(not_done, FailoverDone) and not_done.leaderless_count == 1
    assert isinstance(back, BrokerReturned) and back.after_ms == 9_000
    [moved] = told.at(9_200, TWO, DataSet(STATE, state(1, 1, epoch=2), 2))
    assert isinstance(moved, LeaderMoved) and moved.after_ms == 9_100 and not moved.is_unclean


@pytest.mark.parametrize("together", [True, False], ids=["in one transaction", "before Kafka 1.1"])
def test_a_controller_is_told_with_its_epoch(together: bool) -> None:
    told = Told()
    told.at(50, ONE, Deleted("/controller"))
    first, second = controller(2, 7)
    events = told.at(80, TWO, first, second) if together else told.at(70, TWO, first) + told.at(80, TWO, second)
    [moved] = events
    assert isinstance(moved, ControllerMoved)
    assert (moved.before, moved.controller_id, moved.controller_epoch, moved.after_ms) == (1, 2, 7, 30)


def test_members_of_groups_in_zookeeper_are_named() -> None:
    told = Told()
    told.at(5, 0x20, Created("/consumers/board/ids/board_anna", b"{}", ephemeral=True))
    [lost] = told.at(10, 0x20, SessionClosed(("/consumers/board/ids/board_anna",), expired=True))
    assert isinstance(lost, OwnerLost) and lost.owner == "member board_anna of group board"


def test_sessions_without_znodes_tell_nothing_and_other_data_do_no_harm() -> None:
    told = Told()
    assert told.at(3, 0x30, SessionCreated(6_000)) == []
    for path in (STATE, "/controller", "/controller_epoch"):
        assert told.at(4, 0x30, Created(path, b"\xff{", ephemeral=False), DataSet(path, None, 1)) == []
    assert told.at(5, 0x30, SessionClosed(None)) == []


def test_a_snapshot_is_the_state_before_and_tells_nothing() -> None:
    failovers = Failovers()
    znodes = {
        "/brokers/ids/1": Znode(b"{}", 0, 1, 1, 1, ONE),
        "/controller": Znode(b'{"version":1,"brokerid":1,"timestamp":"1"}', 0, 1, 1, 1, ONE),
        "/controller_epoch": Znode(b"4", 0, 1, 1, 1, 0),
        STATE: Znode(state(1, 1, 2), 0, 1, 1, 1, 0),
    }
    assert failovers.step(Transaction(9, 1_000, 0, (Restored(znodes),))) == []
    [lost] = failovers.step(Transaction(10, 2_000, ONE, (SessionClosed(None, expired=True),)))
    assert isinstance(lost, OwnerLost) and (lost.timeout_ms, lost.ephemeral_count) == (-1, 2)
    [moved] = failovers.step(Transaction(11, 2_050, TWO, controller(2, 5)))
    assert isinstance(moved, ControllerMoved) and (moved.before, moved.after_ms) == (1, 50)


def test_a_real_unclean_election_is_told_as_one() -> None:
    failovers = Failovers()
    events = [event for each in recorded("unclean-election", "/kafka") for event in failovers.step(each)]
    moves = [each for each in events if isinstance(each, LeaderMoved) and each.partition == T0]
    assert [(each.before, each.leader, each.is_unclean) for each in moves] == [
        (1, -1, False), (-1, 2, True), (2, 1, False)
    ]  # fmt: skip

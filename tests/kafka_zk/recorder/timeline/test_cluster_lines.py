"""The events of a cluster in words: in order, many partitions in one line, nothing twice."""


from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo
from kafka_zk.broker.controller.events import (
    ControllerElected,
    IsrsChanged,
    LeadersElected,
    PartitionsMoved,
    RequestFailed,
    RequestSent,
)
from kafka_zk.broker.controller.states import PartitionState
from kafka_zk.broker.process.events import ClientsSeen, ConnectedClient, ThrottledClient
from kafka_zk.broker.replica.events import ControllerIgnored, RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.broker.security.events import Denied
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.recorder.timeline.cluster_events import BrokerGone, ControllerSeen, LeadershipSeen
from kafka_zk.recorder.timeline.cluster_lines import HOLD_BACK_MS, ClusterEvents, ClusterLines
from kafka_zk.recorder.timeline.events import OBSERVER
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired

T = [TopicPartition("t", number) for number in range(9)]
IDS = "/brokers/ids"


def told(*events: Event, verbose: bool = False) -> list[str]:
    """The lines without the time of day."""
    collected = ClusterEvents()
    for event in events:
        collected.add(event)
    return [line[14:] for line in ClusterLines(collected, verbose=verbose).lines()]


def led(tp: TopicPartition, leader: int, epoch: int, *isr: int) -> tuple[TopicPartition, LeadershipInfo]:
    return tp, LeadershipInfo(leader, list(isr), epoch, 1)


def test_the_death_of_a_leader_from_its_session_to_the_new_one() -> None:
    """The order in which the events arrive does not matter."""
    events = [
        BrokerGone(1_000, OBSERVER, "", 0, 1),
        WatchFired(1_001, "controller-0", "child", 0, IDS, EventType.CHILD),
        Reread(1_002, "controller-0", "child", 9, IDS, True),
        LeadershipSeen(1_003, OBSERVER, "", 0, T[0], 2, 5, (2, 0), 1),  # the controller reports it slightly later
        LeadersElected(1_004, "controller-0", "broker change", 0, (led(T[0], 2, 5, 2, 0),)),
        RoleChanged(1_005, "broker-2", "", 0, T[0], Role.LEADER, 5, None),
        RequestSent(1_006, "controller-0", "broker change", 0, 2, "LEADER_AND_ISR"),
        RequestSent(1_007, "controller-0", "broker change", 0, 0, "LEADER_AND_ISR"),
    ]
    lines = [
        "znodes        /brokers/ids: 1 gone, with its session",
        "controller 0  watch on /brokers/ids fired: child",
        "controller 0  reads /brokers/ids again (child)",
        "controller 0  elects leaders (broker change) and writes the state of t-0 (leader 2, epoch 5, ISR 2,0)",
        "broker 2      leads t-0 (leader epoch 5)",
        "controller 0  sent LeaderAndIsr (broker change), answered by broker 2, broker 0",
    ]
    assert told(*events) == lines
    assert told(*reversed(events))[:4] == lines[:4]


def test_what_no_controller_tells_of_is_seen_from_outside() -> None:
    """Examples are writes of another kind of broker, and an ISR that shrinks when a replica goes offline."""
    assert told(
        LeadersElected(1, "controller-0", "election", 0, (led(T[0], 0, 1, 0),)),
        LeadershipSeen(5, OBSERVER, "", 0, T[0], 0, 1, (0,), 1),
        LeadershipSeen(6, OBSERVER, "", 0, T[1], -1, 2, (1,), 1),
        ControllerSeen(7, OBSERVER, "", 0, -1),
    ) == [
        "controller 0  elects leaders (election) and writes the state of t-0 (leader 0, epoch 1, ISR 0)",
        "znodes        state of t-1 (no leader, epoch 2, ISR 1)",
        "znodes        /controller is gone",
    ]


def test_many_partitions_of_one_moment_are_one_line() -> None:
    roles = [RoleChanged(number, "broker-0", "", 0, tp, Role.FOLLOWER, 1, None) for number, tp in enumerate(T)]
    named = ", ".join(f"t-{number} (leader epoch 1)" for number in range(6))
    assert told(*roles) == [f"broker 0      follows the leader of {named} and 3 more"]
    apart = [roles[0], RoleChanged(5_000, "broker-0", "", 0, T[0], Role.FOLLOWER, 1, None)]
    assert len(told(*apart)) == 2


def test_every_step_is_told_to_those_who_want_it() -> None:
    steps = [
        Reread(1, "controller-0", "started", 1, IDS, True),
        WatchArmed(2, "controller-0", "started", 1, IDS),
        Reread(3, "controller-0", "connected", 1, IDS, False),
        PartitionsMoved(4, "controller-0", "", 0, (T[0],), PartitionState.ONLINE),
    ]
    assert told(*steps) == []
    assert told(*steps, verbose=True) == [
        "controller 0  reads /brokers/ids for the first time",
        "controller 0  sets a watch on /brokers/ids",
        "controller 0  reads /brokers/ids again (connected), nothing new",
        "controller 0  moves partitions to OnlinePartition: t-0",
    ]


def test_refusals_say_why() -> None:
    assert told(
        RequestFailed(1, "controller-1", "ConnectionRefused", 0, 2, "UPDATE_METADATA"),
        ControllerIgnored(2, "broker-0", "", 0, 3, 4),
        RoleChanged(3, "broker-0", "", 0, T[1], Role.REFUSED, 2, ErrorCode.INCONSISTENT_TOPIC_ID),
        IsrsChanged(4, "controller-1", "AlterPartition", 0, (led(T[0], 0, 1, 0),)),
        ControllerElected(5, "controller-0", "election", 0, 7),
    ) == [
        "controller 1  UpdateMetadata to broker 2 failed: ConnectionRefused",
        "broker 0      ignores a request of controller epoch 3: it knows epoch 4",
        "broker 0      cannot serve t-1 (leader epoch 2): INCONSISTENT_TOPIC_ID",
        "controller 1  changes the ISR (AlterPartition) and writes the state of t-0 (leader 0, epoch 1, ISR 0)",
        "controller 0  is elected controller, epoch 7: it wrote /controller and /controller_epoch",
    ]


def test_who_was_denied_what_is_told_and_who_is_connected_to_those_who_want_it() -> None:
    clients = (ConnectedClient("User:alice", "10.0.0.1", "CLIENTS", "SASL_SSL", 2),)
    throttled = (ThrottledClient("producer_byte_rate", "alice", "app", 2_000, 1_000, 900),)
    events = [
        Denied(1, "broker-0", "no ACL applies to it", 0, "User:bob", "10.0.0.2", "Write", "Topic t", "Produce", 1),
        Denied(2, "broker-0", "no ACL applies to it", 0, "User:bob", "10.0.0.2", "Write", "Topic t", "Produce", 9),
        ClientsSeen(3, "broker-0", "", 0, clients, throttled, 0),
    ]
    denied = "broker 0      denies User:bob at 10.0.0.2 Write on Topic t (Produce): no ACL applies to it"
    assert told(*events) == [denied, f"{denied}, 9 more times"]
    assert told(*events, verbose=True)[2:] == [
        "broker 0      connected: User:alice ×2; throttled: alice app by 900 ms (producer_byte_rate)"
    ]


def test_events_are_held_back_until_slower_processes_have_told_theirs() -> None:
    events = ClusterEvents()
    lines = ClusterLines(events, verbose=False)
    events.add(ControllerSeen(1_000, OBSERVER, "", 0, 2))
    assert list(lines.lines(1_000 + HOLD_BACK_MS - 1)) == []
    assert [line[14:] for line in lines.lines(1_000 + HOLD_BACK_MS)] == ["znodes        /controller names broker 2"]


def test_transactions_are_told_when_they_abort_and_the_others_to_those_who_want_every_step() -> None:
    """Transactions of the same moment share a line."""

    def changed(time_ms: int, transactional_id: str, state: TransactionState) -> TransactionChanged:
        return TransactionChanged(time_ms, "broker-1", "", 0, transactional_id, 7, 2, state, (T[0],))

    events = [
        changed(1, "x", TransactionState.ONGOING),
        changed(2, "x", TransactionState.PREPARE_ABORT),
        changed(3, "y", TransactionState.PREPARE_ABORT),
    ]
    aborted = "broker 1      decides to abort the transaction of x (producer 7, epoch 2), y (producer 7, epoch 2)"
    assert told(*events) == [aborted]
    ongoing = "broker 1      adds partitions to the transaction of x (producer 7, epoch 2)"
    assert told(*events, verbose=True) == [ongoing, aborted]


def test_zookeepers_outage_is_told_and_that_it_served_before_is_not() -> None:
    events = ClusterEvents()
    server = "ZooKeeper zk-1:2181"
    for told in (
        ServerStateChanged(1_000, server, "polled with srvr", 0, "standalone", "", 0),
        ServerStateChanged(5_000, server, "connection refused", 0, "no answer", "standalone", 4_000),
        EnsembleStateChanged(5_000, "ZooKeeper", "zk-1:2181: connection refused", 0, "no answer", "serves", 4_000),
        EnsembleStateChanged(45_000, "ZooKeeper", "polled with srvr", 0, "serves", "no answer", 40_000),
    ):  # fmt: skip
        events.add(told)
    lines = ClusterLines(events, verbose=False, time_text=str).lines()
    assert list(lines) == [
        "5000  ZooKeeper zk-1:2181  does not answer: connection refused",
        "5000  ZooKeeper     does not answer (zk-1:2181: connection refused); brokers keep their state, "
        "no election can happen",
        "45000  ZooKeeper     serves again, after 40 s",
    ]

"""Derives failovers from ZooKeeper's transactions, step by step: whose session ended, and the cluster's reaction. Pure.

The end of a session removes ``/brokers/ids/N``, and ``/controller`` if the broker was the controller. A new controller
creates ``/controller`` and increments ``/controller_epoch``; then it writes a new leader and ISR to the ``state`` of
each partition that the lost broker led. A failover is done when no partition waits for a leader.

Transactions arrive in the log's order. Memory is proportional to the brokers, ephemeral znodes and partitions.

Source: KafkaController.scala, KafkaZkClient.scala: registerControllerAndIncrementControllerEpoch@3.9.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.events import OBSERVER
from kafka_zk.recorder.timeline.outage_events import (
    NO_BROKER,
    NOT_KNOWN,
    BrokerReturned,
    ControllerMoved,
    FailoverDone,
    IsrMoved,
    LeaderMoved,
    OutageEvent,
    OwnerLost,
)
from kafka_zk.recorder.zookeeper_files.transaction_log import (
    Created,
    DataSet,
    Deleted,
    Restored,
    SessionClosed,
    SessionCreated,
    Transaction,
)
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import controller as controllers
from kafka_zk.registry.znodes.topics import decode_state

_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d{1,9})/state")
_BROKER = re.compile(r"/brokers/ids/(\d{1,9})")
_MEMBER = re.compile(r"/consumers/([^/]+)/ids/([^/]+)")


class _State(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class _Loss(NamedTuple):
    """``waiting``: the partitions that the broker led and that have no other leader yet; ``moved``: those that have."""

    time_ms: int
    waiting: set[TopicPartition]
    moved: set[TopicPartition]


class Failovers:
    """Knows the state of the cluster after each transaction."""

    def __init__(self) -> None:
        self._timeouts: dict[int, int] = {}
        self._owned: dict[int, set[str]] = {}  # ephemeral znodes of each session
        self._owners: dict[str, int] = {}
        self._states: dict[TopicPartition, _State] = {}
        self._losses: dict[int, _Loss] = {}
        self._leaderless_ms: dict[TopicPartition, int] = {}
        self._controller = NO_BROKER
        self._controller_gone_ms = NOT_KNOWN
        self._elected: controllers.ControllerClaim | None = None  # a claim that is not reported yet
        self._epoch: int | None = None  # the epoch that this transaction wrote
        self._now = Transaction(0, 0, 0, ())

    def step(self, transaction: Transaction) -> list[OutageEvent]:
        """The events that this transaction shows, in their order."""
        self._now = transaction
        events = [event for operation in transaction.operations for event in self._operation(operation)]
        return [*events, *self._election(), *self._done()]

    def _operation(self, operation: object) -> Iterator[OutageEvent]:
        match operation:
            case SessionCreated():
                self._timeouts[self._now.session] = operation.timeout_ms
            case SessionClosed():
                yield from self._closed(operation)
            case Created():
                if operation.ephemeral:
                    self._own(operation.path, self._now.session)
                yield from self._written(operation.path, operation.data)
            case DataSet():
                yield from self._written(operation.path, operation.data)
            case Deleted():
                self._removed(operation.path)
            case Restored():
                self._restored(operation)

    # --- sessions ---

    def _own(self, path: str, session: int) -> None:
        self._owners[path] = session
        self._owned.setdefault(session, set()).add(path)

    def _closed(self, end: SessionClosed) -> Iterator[OutageEvent]:
        session = self._now.session
        paths = sorted({*self._owned.pop(session, ()), *(end.paths or ())})
        timeout_ms = self._timeouts.pop(session, NOT_KNOWN)
        if paths:
            yield OwnerLost(*self._head(), _owner(paths), session, end.expired, timeout_ms, len(paths))
        for path in paths:
            self._removed(path)

    def _removed(self, path: str) -> None:
        session = self._owners.pop(path, 0)
        self._owned.get(session, set()).discard(path)
        if path == controllers.CONTROLLER:
            self._controller_gone_ms = self._now.time_ms
            self._elected = None
        elif found := _BROKER.fullmatch(path):
            led = {tp for tp, state in self._states.items() if state.leader == int(found[1])}
            self._losses[int(found[1])] = _Loss(self._now.time_ms, led, set())
        elif found := _STATE.fullmatch(path):
            tp = TopicPartition(found[1], int(found[2]))
            self._states.pop(tp, None)
            self._leaderless_ms.pop(tp, None)
            for loss in self._losses.values():
                loss.waiting.discard(tp)

    # --- znodes ---

    def _written(self, path: str, data: bytes | None) -> Iterator[OutageEvent]:
        try:
            if found := _STATE.fullmatch(path):
                yield from self._state(TopicPartition(found[1], int(found[2])), data)
            elif found := _BROKER.fullmatch(path):
                yield from self._registered(int(found[1]))
            elif path == controllers.CONTROLLER:
                self._elected = controllers.decode(data)
            elif path == controllers.CONTROLLER_EPOCH:
                self._epoch = controllers.decode_epoch(data)
        except InvalidZnode:
            return  # the page shows the znode's invalid content

    def _registered(self, broker_id: int) -> Iterator[OutageEvent]:
        loss = self._losses.pop(broker_id, None)
        if loss is None:
            return
        if loss.waiting:
            yield self._failover(broker_id, loss)
        yield BrokerReturned(*self._head(), broker_id, self._now.time_ms - loss.time_ms)

    def _election(self) -> Iterator[OutageEvent]:
        """The transaction that increments the epoch also creates ``/controller``; before Kafka 1.1 it follows."""
        epoch, self._epoch = self._epoch, None
        if epoch is None or self._elected is None:
            return
        elected, self._elected = self._elected, None
        gone_ms, self._controller_gone_ms = self._controller_gone_ms, NOT_KNOWN
        after_ms = self._now.time_ms - gone_ms if gone_ms != NOT_KNOWN else NOT_KNOWN
        before, self._controller = self._controller, elected.broker_id
        yield ControllerMoved(*self._head(), before, elected.broker_id, epoch, after_ms, elected.is_kraft)

    def _state(self, tp: TopicPartition, data: bytes | None) -> Iterator[OutageEvent]:
        decoded = decode_state(*tp, data)
        before, now = self._states.get(tp), _State(decoded.leader, decoded.leader_epoch, tuple(decoded.isr))
        self._states[tp] = now
        if before is None:
            return
        if before.leader == now.leader:
            if before.isr != now.isr:
                yield IsrMoved(*self._head(), tp, now.leader, before.isr, now.isr)
            return
        is_unclean = now.leader != NO_BROKER and bool(before.isr) and now.leader not in before.isr
        yield LeaderMoved(
            *self._head(), tp, before.leader, now.leader, now.leader_epoch, before.isr, now.isr,
            self._without_leader_ms(tp, before.leader), is_unclean,
        )  # fmt: skip
        self._moved(tp, now.leader)

    def _without_leader_ms(self, tp: TopicPartition, before: int) -> int:
        since_ms = self._leaderless_ms.get(tp, NOT_KNOWN)
        if since_ms == NOT_KNOWN and before in self._losses:
            since_ms = self._losses[before].time_ms
        return NOT_KNOWN if since_ms == NOT_KNOWN else self._now.time_ms - since_ms

    def _moved(self, tp: TopicPartition, leader: int) -> None:
        """A partition without a leader (-1), which the controller writes first, still waits for one."""
        losses = [each for each in self._losses.values() if tp in each.waiting]
        if leader == NO_BROKER:
            self._leaderless_ms.setdefault(tp, min([each.time_ms for each in losses], default=self._now.time_ms))
            return
        self._leaderless_ms.pop(tp, None)
        for loss in losses:
            loss.waiting.discard(tp)
            loss.moved.add(tp)

    def _done(self) -> Iterator[OutageEvent]:
        """Failovers that end with this transaction."""
        for broker_id, loss in self._losses.items():
            if loss.moved and not loss.waiting:
                yield self._failover(broker_id, loss)
                loss.moved.clear()

    def end(self) -> list[OutageEvent]:
        """The failovers that are not done at the end of the log."""
        return [self._failover(broker_id, loss) for broker_id, loss in self._losses.items() if loss.waiting]

    def _failover(self, broker_id: int, loss: _Loss) -> FailoverDone:
        after_ms = self._now.time_ms - loss.time_ms
        return FailoverDone(*self._head(), broker_id, len(loss.moved), len(loss.waiting), after_ms)

    def _restored(self, snapshot: Restored) -> None:
        """Take the znodes of a snapshot, without events, because a snapshot does not contain the times of writes."""
        for path, znode in snapshot.znodes.items():
            if znode.session:
                self._own(path, znode.session)
            for _ in self._written(path, znode.data):
                pass
        claim, self._elected, self._epoch = self._elected, None, None
        self._controller = NO_BROKER if claim is None else claim.broker_id

    def _head(self) -> tuple[int, str, str, int]:
        return self._now.time_ms, OBSERVER, "", self._now.zxid


def _owner(paths: list[str]) -> str:
    for path in paths:
        if found := _BROKER.fullmatch(path):
            return f"broker {found[1]}"
        if found := _MEMBER.fullmatch(path):
            return f"member {found[2]} of group {found[1]}"
    return ""

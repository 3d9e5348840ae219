"""An event of a cluster as a phrase for people, made so that equal phrases about many partitions can be one. Pure."""

from collections.abc import Iterable
from functools import singledispatchmethod
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events as controller
from kafka_zk.broker.controller.context import LeadershipInfo
from kafka_zk.broker.replica import events as replica
from kafka_zk.broker.replica.partition import Role
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.recorder.timeline import cluster_events as seen
from kafka_zk.recorder.timeline.events import OBSERVER
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired

STARTED = "started"
"""The cause of a watcher's first read."""
_TRANSACTIONS = {
    TransactionState.EMPTY: "new producers of transactional ids {}",
    TransactionState.ONGOING: "transactions go on: {}",
    TransactionState.PREPARE_COMMIT: "transactions will be committed: {}",
    TransactionState.PREPARE_ABORT: "transactions will be aborted: {}",
    TransactionState.COMPLETE_COMMIT: "transactions are committed: {}",
    TransactionState.COMPLETE_ABORT: "transactions are aborted: {}",
}
_TOLD_OF_TRANSACTIONS = (TransactionState.EMPTY, TransactionState.PREPARE_ABORT)
"""The others come with every transaction of every producer."""
_ROLES = {Role.LEADER: "leads {}", Role.FOLLOWER: "follows the leader of {}", Role.OFFLINE: "has lost the log of {}"}


class Phrase(NamedTuple):
    """``text`` has a place ``{}`` for the items if there are any. ``is_detail``: only for those who want every step."""

    text: str
    items: tuple[str, ...] = ()
    is_detail: bool = False


class ClusterNarrator:
    """Phrases about one cluster; ``None`` for what only repeats another event."""

    def who(self, event: Event) -> str:
        """``controller 0``: broker 0 in its office; the observer sees ``znodes``."""
        return "znodes" if event.actor == OBSERVER else event.actor.replace("-", " ")

    @singledispatchmethod
    def phrase(self, event: Event) -> Phrase | None:
        return None

    # --- seen from outside ---

    @phrase.register
    def _(self, event: seen.BrokerSeen) -> Phrase | None:
        return Phrase("/brokers/ids: {} registered", (str(event.broker_id),))

    @phrase.register
    def _(self, event: seen.BrokerGone) -> Phrase | None:
        return Phrase("/brokers/ids: {} gone, with its session", (str(event.broker_id),))

    @phrase.register
    def _(self, event: seen.ControllerSeen) -> Phrase | None:
        if event.controller_id < 0:
            return Phrase("/controller is gone")
        return Phrase(f"/controller names broker {event.controller_id}")

    @phrase.register
    def _(self, event: seen.LeadershipSeen) -> Phrase | None:
        return Phrase("state of {}", (_state(event.partition, event.leader, event.leader_epoch, event.isr),))

    @phrase.register
    def _(self, event: seen.WatchSeen) -> Phrase | None:
        return Phrase("watches {}, says ZooKeeper", (event.path,), is_detail=True)

    @phrase.register
    def _(self, event: seen.WatchGone) -> Phrase | None:
        return Phrase("watches {} no more, says ZooKeeper", (event.path,), is_detail=True)

    @phrase.register
    def _(self, event: seen.OperatorActed) -> Phrase | None:
        return Phrase(f"{event.action} {{}}", (event.target,))

    # --- watches and sessions ---

    @phrase.register
    def _(self, event: WatchFired) -> Phrase | None:
        if event.type is EventType.NONE:
            return Phrase("watches dropped with the connection: {}", (event.path,), is_detail=True)
        return Phrase(f"watch fired, {event.type.value}: {{}}", (event.path,))

    @phrase.register
    def _(self, event: Reread) -> Phrase | None:
        is_first = event.cause == STARTED
        changed = "" if event.changed else ", nothing new"
        verb = "reads" if is_first else "reads again"
        return Phrase(f"{verb} {{}}{changed}", (event.path,), is_detail=is_first or not event.changed)

    @phrase.register
    def _(self, event: WatchArmed) -> Phrase | None:
        return Phrase("leaves a watch at {}", (event.path,), is_detail=True)

    @phrase.register
    def _(self, event: SessionChanged) -> Phrase | None:
        return Phrase(f"session {event.state.value}")

    # --- the controller ---

    @phrase.register
    def _(self, event: controller.ControllerElected) -> Phrase | None:
        return Phrase(f"wrote /controller and /controller_epoch: it is the controller, epoch {event.epoch}")

    @phrase.register
    def _(self, event: controller.ControllerReady) -> Phrase | None:
        return Phrase(f"has taken over, epoch {event.epoch}")

    @phrase.register
    def _(self, event: controller.ControllerResigned) -> Phrase | None:
        return Phrase(f"is not the controller any more, epoch {event.epoch}")

    @phrase.register
    def _(self, event: controller.BrokersChanged) -> Phrase | None:
        kinds = (("started", event.started), ("gone", event.failed), ("started anew", event.bounced),
                 ("changed", event.updated))  # fmt: skip
        told = [f"broker {', '.join(map(str, ids))} {what}" for what, ids in kinds if ids]
        return Phrase(f"finds {'; '.join(told)}") if told else None

    @phrase.register
    def _(self, event: controller.LeadersElected) -> Phrase | None:
        return self._written("elected", event.leadership, event.cause)

    @phrase.register
    def _(self, event: controller.IsrsChanged) -> Phrase | None:
        return self._written("changed the ISR", event.leadership, event.cause)

    def _written(
        self, why: str, leadership: Iterable[tuple[TopicPartition, LeadershipInfo]], cause: str
    ) -> Phrase | None:
        items = tuple(_state(tp, info.leader, info.leader_epoch, info.isr) for tp, info in leadership)
        return Phrase(f"{why} ({cause}), wrote the state of {{}}", items) if items else None

    @phrase.register
    def _(self, event: controller.PartitionsMoved) -> Phrase | None:
        return Phrase(f"partitions are {event.state.value}: {{}}", tuple(map(str, event.partitions)), is_detail=True)

    @phrase.register
    def _(self, event: controller.ReplicasMoved) -> Phrase | None:
        items = tuple(f"{each.partition} on {each.broker_id}" for each in event.replicas)
        return Phrase(f"replicas are {event.state.value}: {{}}", items, is_detail=True)

    @phrase.register
    def _(self, event: controller.ChangesRefused) -> Phrase | None:
        items = tuple(f"{each.partition} ({each.reason})" for each in event.refused)
        return Phrase("cannot find a leader or a state for {}", items)

    @phrase.register
    def _(self, event: controller.TopicDeleted) -> Phrase | None:
        return Phrase("deleted topic {}", (event.topic,))

    @phrase.register
    def _(self, event: controller.RequestSent) -> Phrase | None:
        return Phrase(f"{_api(event.api)} ({event.cause}) answered by {{}}", (f"broker {event.broker_id}",))

    @phrase.register
    def _(self, event: controller.RequestFailed) -> Phrase | None:
        return Phrase(f"{_api(event.api)} failed at {{}}: {event.cause}", (f"broker {event.broker_id}",))

    # --- replicas ---

    @phrase.register
    def _(self, event: replica.RoleChanged) -> Phrase | None:
        item = f"{event.partition} (epoch {event.leader_epoch})"
        if event.refusal is not None and event.role is not Role.OFFLINE:
            return Phrase(f"cannot serve {{}}: {event.refusal.name}", (item,))
        return Phrase(_ROLES.get(event.role, f"is {event.role.value} for {{}}"), (item,))

    @phrase.register
    def _(self, event: replica.IsrChanged) -> Phrase | None:
        item = f"{event.partition} (ISR {_ids(event.isr)})"
        return Phrase("counts the high watermark over the new ISR of {}", (item,), is_detail=True)

    @phrase.register
    def _(self, event: replica.ReplicaStopped) -> Phrase | None:
        verb = "deleted" if event.deleted else "stopped"
        return Phrase(f"{verb} its replica of {{}}", (str(event.partition),))

    @phrase.register
    def _(self, event: replica.ReplicasOffline) -> Phrase | None:
        return Phrase("lost a log directory, with {}", tuple(map(str, event.partitions)))

    @phrase.register
    def _(self, event: replica.ControllerIgnored) -> Phrase | None:
        return Phrase(f"refuses a request of controller epoch {event.controller_epoch}: it knows {event.known_epoch}")

    # --- transactions ---

    @phrase.register
    def _(self, event: TransactionChanged) -> Phrase | None:
        text = _TRANSACTIONS.get(event.state)
        if text is None:
            return None
        item = f"{event.transactional_id} (producer {event.producer_id}, epoch {event.producer_epoch})"
        return Phrase(text, (item,), is_detail=event.state not in _TOLD_OF_TRANSACTIONS)


def _state(tp: TopicPartition, leader: int, leader_epoch: int, isr: Iterable[int]) -> str:
    led = f"leader {leader}" if leader >= 0 else "no leader"
    return f"{tp} ({led}, epoch {leader_epoch}, ISR {_ids(isr)})"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids)) or "empty"


def _api(name: str) -> str:
    """``LEADER_AND_ISR`` as people know it: LeaderAndIsr."""
    return "".join(part.title() for part in name.split("_"))

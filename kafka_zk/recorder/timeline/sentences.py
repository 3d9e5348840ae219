"""A table with a sentence for each event; the event's actor is the subject. Pure.

The terminal, the page and the simulator share these sentences, but each omits different ones and names members in its
own way.
"""

import enum
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events as controller
from kafka_zk.broker.group import events as coordinator
from kafka_zk.broker.process.events import ClientsSeen
from kafka_zk.broker.replica import events as replica
from kafka_zk.broker.replica.partition import Role
from kafka_zk.broker.security.events import Denied
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.rebalance import events as group
from kafka_zk.recorder.timeline import cluster_events as cluster
from kafka_zk.recorder.timeline import events as seen
from kafka_zk.recorder.timeline import outage_events as outage
from kafka_zk.recorder.timeline import record_events as record
from kafka_zk.recorder.timeline import zookeeper_sentences as zookeeper
from kafka_zk.recorder.timeline.names import Names, counted, listed, listed_offsets
from kafka_zk.recorder.zookeeper_health import events as health
from kafka_zk.registry.client.client import EventType, SessionState
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired

STARTED = "started"
"""The cause of a watcher's first read."""


class Mark(enum.Enum):
    DETAIL = "detail"
    """Marks a sentence that only readers of every step want."""
    WARNING = "WARNING: "
    SAFEGUARD = "SAFEGUARD: "
    """Marks a sentence about a rule of the product that prevented harm."""


class Sentence(NamedTuple):
    """``text`` contains ``{}`` if there are items, so that equal sentences can be combined."""

    text: str
    items: tuple[str, ...] = ()
    mark: Mark | None = None

    def with_items(self, items: str) -> str:
        return self.text.replace("{}", items) if self.items else self.text

    def __str__(self) -> str:
        return self.with_items(", ".join(self.items))


E = TypeVar("E", bound=Event)
_Say = Callable[[E, Names], Sentence | str | None]

_FULL = Names()


def sentence(event: Event, names: Names = _FULL) -> Sentence | None:
    """The event's sentence; None if the event repeats another one."""
    say = _TABLE.get(type(event))
    said = None if say is None else say(event, names)
    return Sentence(said) if isinstance(said, str) else said


def _row(kind: type[E], say: _Say[E]) -> tuple[type[Event], _Say[Any]]:
    return kind, say


def _detail(text: str, *items: str) -> Sentence:
    return Sentence(text, items, Mark.DETAIL)


def _warning(text: str) -> Sentence:
    return Sentence(text, mark=Mark.WARNING)


def _safeguard(text: str) -> Sentence:
    return Sentence(text, mark=Mark.SAFEGUARD)


# --- watches and sessions ---


def _watch_fired(event: WatchFired, names: Names) -> Sentence:
    path = names.path(event.path)
    if event.type is EventType.NONE:
        return _detail("lost the watch on {} with the connection", path)
    return Sentence(f"watch on {{}} fired: {event.type.value}", (path,))


def _reread(event: Reread, names: Names) -> Sentence:
    is_first = event.cause == STARTED
    text = "reads {} for the first time" if is_first else f"reads {{}} again{_because(event.cause)}"
    is_news = event.changed and not is_first
    return Sentence(
        f"{text}{'' if event.changed else ', nothing new'}", (names.path(event.path),), None if is_news else Mark.DETAIL
    )


_SESSION = {
    SessionState.CONNECTED: "is connected to ZooKeeper",
    SessionState.SUSPENDED: "lost its connection to ZooKeeper",
    SessionState.LOST: "lost its ZooKeeper session",
}


def _health_mark(event: health.ServerStateChanged | health.EnsembleStateChanged) -> Mark | None:
    """The mark of a health event: a warning for a bad state, a detail for a first state that is good."""
    if zookeeper.is_bad(event):
        return Mark.WARNING
    return None if event.previous else Mark.DETAIL


# --- members of ZooKeeper groups ---


def _strategy_chosen(event: group.StrategyChosen, names: Names) -> Sentence:
    return Sentence(f"uses strategy {event.strategy}: {event.cause}", mark=Mark.WARNING if event.warning else None)


def _released(event: group.Released, names: Names) -> Sentence:
    done = f"releases {listed(event.partitions)}"
    if not event.not_ours:
        return Sentence(done)
    left = f"does not touch {listed(event.not_ours)}, which it no longer owns"
    return _safeguard(f"{done}; {left}" if event.partitions else left)


def _rebalance_finished(event: group.RebalanceFinished, names: Names) -> str:
    kept, lost, gained = listed(event.kept), listed(event.lost), listed(event.gained)
    return f"REBALANCE done in {event.duration_ms} ms: kept {kept}, lost {lost}, gained {gained}"


def _generation_written(event: group.GenerationWritten, names: Names) -> str:
    moved = f"{counted(event.moved, 'partition')} to move"
    return f"leads the group and writes generation {event.generation} ({event.strategy}): {moved}"


def _caused_warning(event: Event, names: Names) -> Sentence:
    return _warning(event.cause)


# --- groups seen from outside ---


def _member_seen(event: seen.MemberSeen, names: Names) -> str:
    can = f"can {event.announces}" if event.announces else "announces none of our strategies"
    return f"ids: {names.member(event.consumer_id)} is there ({can})"


def _assignment_seen(event: seen.AssignmentSeen, names: Names) -> str:
    leader = names.member(event.leader)
    return f"assignment: generation {event.generation} by {event.strategy}, written by {leader}"


def _generation_seen(event: seen.GenerationSeen, names: Names) -> str:
    has = ", ".join(f"{each.member} has {listed(each.assigned)}" for each in event.members) or "no members"
    number = f"generation {event.generation}, assigned by {event.leader}: " if event.leader else ""
    return f"{number}{has}"


# --- coordinators of brokers' groups ---


def _member_joined(event: coordinator.MemberJoined, names: Names) -> str:
    again = "" if event.is_new else " again"
    static = f" as static member {event.group_instance_id}" if event.group_instance_id else ""
    return f"{event.member} joins{again}{static}, owns {listed(event.owned)}"


def _join_completed(event: coordinator.JoinCompleted, names: Names) -> str:
    if not event.members:
        return f"generation {event.generation}: the group is empty"
    members = ", ".join(event.members)
    return f"generation {event.generation}: {members}; {event.leader} leads and assigns by {event.protocol}"


def _assignment_completed(event: coordinator.AssignmentCompleted, names: Names) -> str:
    gets = ", ".join(f"{member} gets {listed(tps)}" for member, tps in event.assignments.items())
    return f"REBALANCE done, generation {event.generation} is stable: {gets}"


# --- controllers ---


def _controller_seen(event: cluster.ControllerSeen, names: Names) -> str:
    return "/controller is gone" if event.controller_id < 0 else f"/controller names broker {event.controller_id}"


def _brokers_changed(event: controller.BrokersChanged, names: Names) -> str | None:
    kinds = (
        ("started", event.started), ("gone", event.failed), ("restarted", event.bounced),
        ("at new endpoints", event.updated),
    )  # fmt: skip
    found = [f"broker {_ids(ids)} {what}" for what, ids in kinds if ids]
    return f"finds {'; '.join(found)}" if found else None


def _written(did: str, event: controller.LeadersElected | controller.IsrsChanged) -> Sentence | None:
    items = tuple(_state(tp, info.leader, info.leader_epoch, info.isr) for tp, info in event.leadership)
    return Sentence(f"{did}{_because(event.cause)} and writes the state of {{}}", items) if items else None


def _replicas_moved(event: controller.ReplicasMoved, names: Names) -> Sentence:
    replicas = (f"{each.partition} on {each.broker_id}" for each in event.replicas)
    return _detail(f"moves replicas to {event.state.value}: {{}}", *replicas)


def _changes_refused(event: controller.ChangesRefused, names: Names) -> Sentence:
    return Sentence("cannot move {}", tuple(f"{each.partition} ({each.reason})" for each in event.refused))


def _request_sent(event: controller.RequestSent, names: Names) -> Sentence:
    text = f"sent {api_name(event.api)}{_because(event.cause)}, answered by {{}}"
    return Sentence(text, (f"broker {event.broker_id}",))


def _request_failed(event: controller.RequestFailed, names: Names) -> Sentence:
    return Sentence(f"{api_name(event.api)} to {{}} failed: {event.cause}", (f"broker {event.broker_id}",))


# --- replicas and transactions ---

_ROLES = {Role.LEADER: "leads {}", Role.FOLLOWER: "follows the leader of {}", Role.OFFLINE: "has lost the log of {}"}


def _role_changed(event: replica.RoleChanged, names: Names) -> Sentence:
    item = f"{event.partition} (leader epoch {event.leader_epoch})"
    if event.refusal is not None and event.role is not Role.OFFLINE:
        return Sentence(f"cannot serve {{}}: {event.refusal.name}", (item,))
    return Sentence(_ROLES.get(event.role, f"is {event.role.value} for {{}}"), (item,))


def _replica_stopped(event: replica.ReplicaStopped, names: Names) -> Sentence:
    deleted = " and deletes its log" if event.deleted else ""
    return Sentence(f"stops its replica of {{}}{deleted}", (str(event.partition),))


_TRANSACTIONS = {
    TransactionState.EMPTY: "gives {} a producer epoch",
    TransactionState.ONGOING: "adds partitions to the transaction of {}",
    TransactionState.PREPARE_COMMIT: "decides to commit the transaction of {}",
    TransactionState.PREPARE_ABORT: "decides to abort the transaction of {}",
    TransactionState.COMPLETE_COMMIT: "has committed the transaction of {}",
    TransactionState.COMPLETE_ABORT: "has aborted the transaction of {}",
}
_RARE_IN_TRANSACTIONS = (TransactionState.EMPTY, TransactionState.PREPARE_ABORT)
"""The other states occur in every transaction."""


def _transaction_changed(event: TransactionChanged, names: Names) -> Sentence | None:
    text = _TRANSACTIONS.get(event.state)
    if text is None:
        return None
    item = f"{event.transactional_id} (producer {event.producer_id}, epoch {event.producer_epoch})"
    return Sentence(text, (item,), None if event.state in _RARE_IN_TRANSACTIONS else Mark.DETAIL)


# --- records ---


def _replica_seen(event: record.ReplicaSeen, names: Names) -> Sentence:
    if not event.is_there:
        return _detail("has no log of {}", str(event.partition))
    known = "" if event.high_watermark == record.UNKNOWN else f", high watermark {event.high_watermark}"
    return _detail(f"its log of {{}} has {' '.join(event.values) or 'nothing'}{known}", str(event.partition))


# --- clients ---


def _denied(event: Denied, names: Names) -> str:
    again = f", {event.times} more times" if event.times > 1 else ""
    who = f"{event.principal} at {event.host}"
    return f"denies {who} {event.operation} on {event.resource} ({event.request}): {event.cause}{again}"


def _clients_seen(event: ClientsSeen, names: Names) -> Sentence:
    connected = ", ".join(f"{each.principal} ×{each.connection_count}" for each in event.clients) or "none"
    throttled = ", ".join(
        f"{' '.join(filter(None, (each.user, each.client_id)))} by {each.throttle_ms} ms ({each.key})"
        for each in event.throttled
    )
    text = f"connected: {connected}" + (f"; throttled: {throttled}" if throttled else "")
    return Sentence(text, mark=Mark.DETAIL)


# --- outages, from ZooKeeper's transaction log ---


def _owner_lost(event: outage.OwnerLost, names: Names) -> Sentence:
    heard = f"ZooKeeper heard nothing from it for {event.timeout_ms / 1000:g} s" if event.timeout_ms > 0 else "silence"
    end = f"expired ({heard})" if event.expired else "was closed by its client"
    session = f"the session of {event.owner}" if event.owner else "a session"
    lost = f"with {counted(event.ephemeral_count, 'ephemeral znode')}"
    return Sentence(f"{session} {end}, {lost}", mark=Mark.WARNING if event.expired else None)


def _controller_moved(event: outage.ControllerMoved, names: Names) -> str:
    node = f"{'KRaft controller' if event.is_kraft else 'broker'} {event.controller_id}"
    before = f" instead of {event.before}" if event.before not in (outage.NO_BROKER, event.controller_id) else ""
    gone = f", {event.after_ms} ms after /controller was gone" if event.after_ms > 0 else ""
    return f"{node} is the controller{before}, epoch {event.controller_epoch}{gone}"


def _leader_moved(event: outage.LeaderMoved, names: Names) -> Sentence:
    after = f", after {event.after_ms} ms" if event.after_ms >= 0 else ""
    leaders = f"leader {_leader(event.before)} → {_leader(event.leader)}, epoch {event.leader_epoch}"
    item = f"{event.partition} ({leaders}, {_isrs(event.isr_before, event.isr)}{after})"
    if event.is_unclean:
        return Sentence("UNCLEAN election, records may be lost: {}", (item,), Mark.WARNING)
    if event.leader == outage.NO_BROKER:
        return Sentence("no leader: {}", (item,), Mark.WARNING)
    return Sentence("new leader: {}", (item,))


def _isr_moved(event: outage.IsrMoved, names: Names) -> Sentence:
    before, now = set(event.isr_before), set(event.isr)
    what = "shrinks" if now < before else "grows" if now > before else "changes"
    return Sentence(f"ISR {what}: {{}}", (f"{event.partition} ({_isrs(event.isr_before, event.isr)})",))


def _failover_done(event: outage.FailoverDone, names: Names) -> Sentence:
    text = f"{counted(event.moved_count, 'partition')} of broker {event.broker_id} got another leader"
    after = f" within {event.after_ms} ms of the end of its session"
    if not event.leaderless_count:
        return Sentence(f"FAILOVER done: {text}{after}")
    return Sentence(f"FAILOVER not done: {text}{after}, {event.leaderless_count} did not", mark=Mark.WARNING)


def _phase_reached(event: outage.MigrationPhaseReached, names: Names) -> str:
    return f"MIGRATION to KRaft: {event.before} → {event.phase} ({event.sign})"


def _broker_logged(event: outage.BrokerLogged, names: Names) -> Sentence:
    before, subject, after = event.said.partition(event.subject) if event.subject else (event.said, "", "")
    return Sentence(f"{before}{{}}{after}", (subject,)) if subject else Sentence(event.said)


def _leader(broker_id: int) -> str:
    return "none" if broker_id == outage.NO_BROKER else str(broker_id)


def _isrs(before: Iterable[int], now: Iterable[int]) -> str:
    return f"ISR {_ids(before)} → {_ids(now)}"


def _state(tp: TopicPartition, leader: int, leader_epoch: int, isr: Iterable[int]) -> str:
    led = f"leader {leader}" if leader >= 0 else "no leader"
    return f"{tp} ({led}, epoch {leader_epoch}, ISR {_ids(isr)})"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids)) or "empty"


def api_name(name: str) -> str:
    """``LEADER_AND_ISR`` in Kafka's spelling: LeaderAndIsr."""
    return "".join(part.title() for part in name.split("_"))


def _because(cause: str) -> str:
    return f" ({cause})" if cause else ""


_TABLE: dict[type[Event], _Say[Any]] = dict([
    _row(WatchFired, _watch_fired),
    _row(Reread, _reread),
    _row(WatchArmed, lambda e, names: _detail("sets a watch on {}", names.path(e.path))),
    _row(SessionChanged, lambda e, names: _SESSION[e.state]),
    _row(group.MemberRegistered, lambda e, names: f"registered in session {e.session_id:#x}"),
    _row(group.StrategyChosen, _strategy_chosen),
    _row(group.RebalanceStarted, lambda e, names: f"REBALANCE begins: {e.cause}"),
    _row(group.DeliveryStopped, lambda e, names: f"stops delivering {listed(e.partitions)}"),
    _row(group.Committed, lambda e, names: f"commits {listed_offsets(e.offsets)}{_because(e.cause)}"),
    _row(group.CommitRefused, lambda e, names: _safeguard(f"its commit of {e.partition} is refused: {e.reason}")),
    _row(group.Released, _released),
    _row(group.Claimed, lambda e, names: f"claims {listed(e.offsets)}"),
    _row(group.ClaimWaits, lambda e, names:
        f"waits for {names.thread(e.owner)} to release {e.partition} (watches its owner znode)"),
    _row(group.ClaimOverdue, lambda e, names:
        _warning(f"{e.partition} is still held by {names.thread(e.owner)} after {e.waited_ms} ms")),
    _row(group.DeliveryStarted, lambda e, names: f"delivers {listed_offsets(e.offsets)}"),
    _row(group.RebalanceFinished, _rebalance_finished),
    _row(group.OwnershipLost, lambda e, names:
        _safeguard(f"no longer delivers {listed(e.partitions)}: {e.cause}")),
    _row(group.OffsetsOutdated, lambda e, names:
        _warning(f"{e.cause}, the offsets of {listed(e.partitions)} are invalid")),
    _row(group.DeliverySuspended, lambda e, names: "pauses: the connection to ZooKeeper is suspended"),
    _row(group.DeliveryResumed, lambda e, names: "continues: the session survived"),
    _row(group.LeaseEnded, lambda e, names: _safeguard(
        "delivers nothing: its lease has expired, and ZooKeeper may have given its partitions away")),
    _row(group.GenerationWritten, _generation_written),
    _row(group.StaticMemberAway, lambda e, names:
        f"keeps the partitions of static member {names.member(e.consumer_id)}"),
    _row(group.PlaceNotKept, _caused_warning),
    _row(group.GroupNotUnderstood, _caused_warning),
    _row(group.SettingsDoubtful, _caused_warning),
    _row(group.MemberLeft, lambda e, names: "has left"),
    _row(seen.FirstLook, lambda e, names: f"begins; in the group: {names.members(e.members)}"),
    _row(seen.MemberSeen, _member_seen),
    _row(seen.MemberGone, lambda e, names: f"ids: {names.member(e.consumer_id)} is gone"),
    _row(seen.OwnersSeen, lambda e, names: f"owners: {names.thread(e.owner)} has {listed_offsets(e.offsets)}"),
    _row(seen.OwnersGone, lambda e, names: f"owners: {names.thread(e.owner)} no longer has {listed(e.partitions)}"),
    _row(seen.AssignmentSeen, _assignment_seen),
    _row(seen.StateSeen, lambda e, names: f"the group is {e.state}"),
    _row(seen.GenerationSeen, _generation_seen),
    _row(coordinator.RebalancePrepared, lambda e, names:
        f"REBALANCE begins after generation {e.generation}: {e.cause}"),
    _row(coordinator.MemberIdAssigned, lambda e, names: f"{e.member} gets a member id to join with"),
    _row(coordinator.MemberJoined, _member_joined),
    _row(coordinator.MemberToldToRejoin, lambda e, names:
        f"{e.member}'s heartbeat is answered: rebalance in progress"),
    _row(coordinator.JoinCompleted, _join_completed),
    _row(coordinator.MemberSynced, lambda e, names: f"{e.member} asks for its assignment"),
    _row(coordinator.AssignmentCompleted, _assignment_completed),
    _row(coordinator.MemberDeparted, lambda e, names: f"{e.member} is removed: {e.cause}"),
    _row(coordinator.StaticMemberReturned, lambda e, names:
        f"static member {e.group_instance_id} is back and keeps its place; its old member id is fenced"),
    _row(cluster.BrokerSeen, lambda e, names: Sentence("/brokers/ids: {} registered", (str(e.broker_id),))),
    _row(cluster.BrokerGone, lambda e, names: Sentence("/brokers/ids: {} gone, with its session", (str(e.broker_id),))),
    _row(cluster.ControllerSeen, _controller_seen),
    _row(cluster.LeadershipSeen, lambda e, names:
        Sentence("state of {}", (_state(e.partition, e.leader, e.leader_epoch, e.isr),))),
    _row(cluster.WatchSeen, lambda e, names: _detail("watches {} according to ZooKeeper", e.path)),
    _row(cluster.WatchGone, lambda e, names: _detail("no longer watches {} according to ZooKeeper", e.path)),
    _row(health.ServerStateChanged, lambda e, names: Sentence(zookeeper.server_text(e), mark=_health_mark(e))),
    _row(health.EnsembleStateChanged, lambda e, names: Sentence(zookeeper.ensemble_text(e), mark=_health_mark(e))),
    _row(health.ServerSlowed, lambda e, names: zookeeper.slow_text(e)),
    _row(health.LeaderChanged, lambda e, names: zookeeper.leader_text(e)),
    _row(cluster.OperatorActed, lambda e, names: Sentence(f"{e.action} {{}}", (e.target,))),
    _row(controller.ControllerElected, lambda e, names:
        f"is elected controller, epoch {e.epoch}: it wrote /controller and /controller_epoch"),
    _row(controller.ControllerReady, lambda e, names:
        f"has read the state of the cluster and acts as its controller, epoch {e.epoch}"),
    _row(controller.ControllerResigned, lambda e, names:
        f"is no longer the controller of epoch {e.epoch}: {e.cause}"),
    _row(controller.BrokersChanged, _brokers_changed),
    _row(controller.LeadersElected, lambda e, names: _written("elects leaders", e)),
    _row(controller.IsrsChanged, lambda e, names: _written("changes the ISR", e)),
    _row(controller.PartitionsMoved, lambda e, names:
        _detail(f"moves partitions to {e.state.value}: {{}}", *map(str, e.partitions))),
    _row(controller.ReplicasMoved, _replicas_moved),
    _row(controller.ChangesRefused, _changes_refused),
    _row(controller.TopicDeleted, lambda e, names:
        Sentence("has deleted topic {}: logs and znodes are gone", (e.topic,))),
    _row(controller.RequestSent, _request_sent),
    _row(controller.RequestFailed, _request_failed),
    _row(replica.RoleChanged, _role_changed),
    _row(replica.IsrChanged, lambda e, names: _detail(
        "computes the high watermark from the new ISR of {}", f"{e.partition} (ISR {_ids(e.isr)})")),
    _row(replica.ReplicaStopped, _replica_stopped),
    _row(replica.ReplicasOffline, lambda e, names:
        Sentence("lost a log directory, with {}", tuple(map(str, e.partitions)))),
    _row(replica.ControllerIgnored, lambda e, names: _safeguard(
        f"ignores a request of controller epoch {e.controller_epoch}: it knows epoch {e.known_epoch}")),
    _row(TransactionChanged, _transaction_changed),
    _row(outage.OwnerLost, _owner_lost),
    _row(outage.BrokerReturned, lambda e, names: f"broker {e.broker_id} is registered again, after {e.after_ms} ms"),
    _row(outage.ControllerMoved, _controller_moved),
    _row(outage.LeaderMoved, _leader_moved),
    _row(outage.IsrMoved, _isr_moved),
    _row(outage.FailoverDone, _failover_done),
    _row(outage.MigrationPhaseReached, _phase_reached),
    _row(outage.BrokerLogged, _broker_logged),
    _row(Denied, _denied),
    _row(ClientsSeen, _clients_seen),
    _row(record.ReplicaSeen, _replica_seen),
    _row(record.RecordAcknowledged, lambda e, names:
        _detail(f"gets the acknowledgement of {e.value}: {{}}", f"{e.partition} offset {e.offset}")),
    _row(record.RecordRead, lambda e, names: _detail(f"reads {e.value}: {{}}", f"{e.partition} offset {e.offset}")),
])  # fmt: skip

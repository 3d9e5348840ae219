"""One term of the controller, from its election until the broker resigns or loses its session.

It owns its context, fenced store, channels to brokers and watches, so that no state reaches another term.
Source: KafkaController.onControllerFailover and onControllerResignation@3.9.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from twisted.logger import Logger

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import partition_state, replica_state, topic_deletion
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.broker_changes import BrokerChanges
from kafka_zk.broker.controller.channels import Channels
from kafka_zk.broker.controller.config import ControllerConfig
from kafka_zk.broker.controller.context import Context, Replica
from kafka_zk.broker.controller.control_requests import (
    Answer,
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    portions,
)
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.deletions import Deletions
from kafka_zk.broker.controller.effects import Send, SendUpdateMetadata
from kafka_zk.broker.controller.environment import Environment
from kafka_zk.broker.controller.isr_changes import IsrChanges, Outcome
from kafka_zk.broker.controller.leader_elections import LeaderElections
from kafka_zk.broker.controller.reassignments import Reassignments
from kafka_zk.broker.controller.reporter import ControllerReporter
from kafka_zk.broker.controller.request_batch import RequestBatch, Step
from kafka_zk.broker.controller.state_changes import StateChanges
from kafka_zk.broker.controller.states import ReplicaEvent
from kafka_zk.broker.controller.store import ControllerStore
from kafka_zk.broker.controller.topic_changes import TopicChanges
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN, WATCH_COST
from kafka_zk.network.periodic import Periodic
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.errors import InvalidZnode, RegistryError
from kafka_zk.registry.client.watches import ChildrenWatcher, DataWatcher, Watcher
from kafka_zk.registry.controller import ControllerRegistry, Elected
from kafka_zk.registry.features import read_features, write_operation
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import admin, isr
from kafka_zk.registry.znodes.feature import ENABLED, FinalizedFeatures
from kafka_zk.registry.znodes.topics import topic_path

_log = Logger()

BALANCE_AFTER_S = 5
"""Delay until a term's first check for imbalance, as in Kafka."""

RETRY_INTERVAL_S = 10
"""Interval between retries of elections for leaderless partitions and of deletions that a broker rejected."""

Work = Callable[[], Coroutine[Any, Any, object]]


class Put(Protocol):
    """Queues an event: a name and its work."""

    def __call__(self, name: str, work: Work, *, once: bool = False) -> None:
        """Queue an event. ``once``: drop it if an event with this name is already queued."""


class ActiveController:
    """Call ``take_over`` once, then run the queue's events and operations, until ``end``."""

    def __init__(
        self,
        environment: Environment,
        elected: Elected,
        registry: ControllerRegistry,
        config: ControllerConfig,
        put: Put,
        reporter: ControllerReporter,
    ) -> None:
        broker_id, client, clock, connect, random = environment
        self.context = Context(elected.epoch, elected.epoch_zk_version)
        self.store = ControllerStore(client, clock, registry, elected.epoch_zk_version)
        self.channels = Channels(clock, connect, self._answered, reporter.not_sent, config.versions)
        self.client = client
        self._clock = clock
        self._retry = Periodic(clock, RETRY_INTERVAL_S * 1000, self._retry_due)
        self._put = put
        self._reporter = reporter
        self._source = source = reporter.source
        self._turns = Turns(clock, ignores_disconnect=True)
        self._batch = RequestBatch(self.context, broker_id, config.listener_name)
        self._changes = StateChanges(
            self.context,
            self.store,
            self._collect,
            self._send,
            reporter,
            config.unclean_leader_election_enable,
            self._turns,
        )
        tools = ControllerTools(self.context, self.store, self._changes, reporter, self._turns)
        self._deletions = Deletions(tools, enabled=config.delete_topic_enable)
        self._isr_changes = IsrChanges(tools)
        self.elections = LeaderElections(tools, config.leader_imbalance_per_broker_percentage)
        self._balance_interval_s = config.leader_imbalance_check_interval_seconds
        self._balance_due: Any = None
        if config.auto_leader_rebalance_enable:
            self._balance_due = clock.callLater(BALANCE_AFTER_S, self._balance)
        self._topics = TopicChanges(tools, random)
        self.reassignments = Reassignments(tools, self._deletions)
        self.brokers = BrokerChanges(broker_id, tools, self._deletions, self.reassignments, self.channels)
        self._topic_registry = TopicRegistry(client, source)
        self._watchers: list[Watcher] = []
        self._assignment_watchers: dict[str, Watcher] = {}
        self._ended = False

    async def take_over(self) -> None:
        """Run the failover: send UpdateMetadata with the live brokers (as Kafka does), elect missing leaders, shrink
        ISRs.

        The last UpdateMetadata contains all partitions, so that a broker that has just started does not give clients
        incomplete topics.
        """
        await self._enable_features()
        self._watch()
        await self._delete_notifications()
        await self.brokers.load()
        await self._topics.load()
        self.brokers.open_channels()
        await self._deletions.load()
        await self._changes.send([SendUpdateMetadata(None)])
        online, offline = await self._initialized_replicas()
        with self._batch.updates_held():
            elected = {**await self._changes.elect_waiting(), **await self._changes.elect_returned()}
        await self.brokers.leaders_lead(elected)
        shrunk = await self._changes.move_replicas(offline, ReplicaEvent.TAKE_OFFLINE)
        not_elected = [replica for replica in online if replica.partition not in elected]
        everything = SendUpdateMetadata(None, self.context.partitions_with_leadership())
        online_again = await self._changes.move_replicas(not_elected, ReplicaEvent.BRING_ONLINE)
        await self._changes.send([*shrunk, *online_again, everything])
        await self.brokers.forget_unclean_starts()
        await self._watch_assignments(self.context.topics)
        await self.reassignments.resume_all()
        await self._deletions.run()
        await self.elections.ordered()

    def end(self) -> None:
        """Close everything; work in progress fails with ControllerMoved."""
        self._ended = True
        self._retry.stop()
        if self._balance_due is not None:
            self._balance_due.cancel()
            self._balance_due = None
        self.store.close()
        self.channels.close()
        for watcher in (*self._watchers, *self._assignment_watchers.values()):
            watcher.close()
        self._watchers.clear()
        self._assignment_watchers.clear()

    async def alter_isrs(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[TopicPartition, Proposal]
    ) -> dict[TopicPartition, Outcome]:
        """See ``IsrChanges.alter``. Queues reassignments that can continue."""
        outcomes = await self._isr_changes.alter(broker_id, broker_epoch, proposals)
        moving = [tp for tp in outcomes if self.context.assignment(tp).is_being_reassigned]
        if moving:  # queued, so that the leader's response does not wait
            self._put("reassignment", lambda: self.reassignments.advance(moving))
        return outcomes

    def allow_unclean_elections(self, *, by_default: bool) -> None:
        """Handle a change of ``unclean.leader.election.enable``. ``by_default``: its new default."""
        self._changes.unclean_by_default = by_default
        self._put("election for leaderless partitions", self._changes.elect_waiting, once=True)

    # -- the beginning --

    async def _initialized_replicas(self) -> tuple[list[Replica], list[Replica]]:
        """Return the online replicas, then the offline ones."""
        online: list[Replica] = []
        offline: list[Replica] = []
        for portion in portions(self.context.partitions(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            of_portion = replica_state.initialize(self.context, portion)
            partition_state.initialize(self.context, portion)
            online += of_portion[0]
            offline += of_portion[1]
        return online, offline

    async def _enable_features(self) -> None:
        """Write to ``/feature`` that features are enabled, as Kafka does since 3.3; keep the finalized features."""
        try:
            present = await self.store.repeated(lambda: read_features(self.client))
        except InvalidZnode as error:
            _log.error("/feature could not be changed: {error}", error=error)
            return
        kept = present[0].features if present is not None and present[0].status == ENABLED else {}
        operation = write_operation(present, FinalizedFeatures(kept))
        if operation is not None:
            for outcome in await self.store.write([operation]):
                if isinstance(outcome, RegistryError):
                    raise outcome

    async def _delete_notifications(self) -> None:
        """Delete the notifications that the previous controller left; this one has read all states."""
        for parent in (isr.LOG_DIR_EVENTS, isr.ISR_CHANGES):
            names = await self.store.children(parent)
            await self.store.delete_all([f"{parent}/{name}" for name in names])

    def _watch(self) -> None:
        """Set watches before the first read, so that no change is missed. Events wait for the failover's end."""
        topics, client = self._topic_registry, self.client
        brokers = BrokerRegistry(client, None, self._source)
        self._watchers = [
            brokers.watch(lambda _: self._put("broker change", self.brokers.changed, once=True)),
            topics.watch_names(lambda _: self._put("topic change", self._names_changed, once=True)),
            topics.watch_deletions(lambda _: self._put("topic deletion", self._deletions.ordered, once=True)),
            self._watch_order(admin.REASSIGN_PARTITIONS, "reassignment ordered", self.reassignments.ordered),
            self._watch_order(admin.PREFERRED_REPLICA_ELECTION, "preferred election", self.elections.ordered),
            ChildrenWatcher(
                client,
                isr.ISR_CHANGES,
                lambda names: self._put("ISR change", self._isrs_notified, once=True) if names else None,
                self._source,
            ),
            ChildrenWatcher(
                client,
                isr.LOG_DIR_EVENTS,
                lambda names: self._put("log dir event", self.brokers.log_dir_events, once=True) if names else None,
                self._source,
            ),
        ]

    def _watch_order(self, path: str, name: str, work: Work) -> Watcher:
        return DataWatcher(
            self.client, path, lambda _, stat: self._put(name, work, once=True) if stat else None, self._source
        )

    async def _watch_assignments(self, topics: Iterable[str]) -> None:
        for topic in sorted(topics):
            if topic not in self._assignment_watchers:
                await self._turns.spend(WATCH_COST)
                if self._ended:
                    return
                seen = partial(self._assignment_seen, topic)
                self._assignment_watchers[topic] = DataWatcher(self.client, topic_path(topic), seen, self._source)

    def _assignment_seen(self, topic: str, _: bytes | None, stat: ZnodeStat | None) -> None:
        if stat is not None and self._topics.is_news(topic, stat.mzxid):
            self._put(f"partition change of {topic}", lambda: self._topics.assignment_changed(topic), once=True)

    # -- events --

    async def _names_changed(self) -> None:
        await self._topics.names_changed()
        topics = self.context.topics
        for topic in sorted(self._assignment_watchers.keys() - topics):
            self._assignment_watchers.pop(topic).close()
        await self._watch_assignments(topics)

    async def _isrs_notified(self) -> None:
        await self.reassignments.advance(await self._isr_changes.notified())

    def _balance(self) -> None:
        self._balance_due = self._clock.callLater(self._balance_interval_s, self._balance)
        self._put("automatic leader rebalance", self.elections.balance, once=True)

    async def _retry_due(self) -> None:
        """Retry failed elections and deletions, because no watch reports that the cause of a failure is gone."""
        if await self._changes.electable():
            self._put("election for leaderless partitions", self._changes.elect_electable, once=True)
        if topic_deletion.waiting(self.context):
            self._put("retry of rejected deletions", self._deletions.try_refused, once=True)

    # -- requests --

    async def _collect(self, effects: Collection[Send]) -> None:
        await self._add(effects)
        await self._send_steps(self._batch.full())

    async def _send(self, effects: Collection[Send]) -> None:
        await self._add(effects)
        await self._send_steps(self._batch.flush())

    async def _add(self, effects: Collection[Send]) -> None:
        for portion in portions(effects, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            self._batch.add(portion)

    async def _send_steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            await self._turns.spend(step.handled * PARTITION_COST)
            for broker_id, request in step.requests:
                await self._turns.spend(step.handled * PARTITION_COST)
                self.channels.send(broker_id, request)
        self._reporter.refused(self._batch.take_refused(), "a request")

    def _answered(self, broker_id: int, request: ControlRequest, answer: Answer) -> None:
        self._reporter.answered(broker_id, request, answer)
        if isinstance(request, LeaderAndIsrRequest):
            self._put(
                f"LeaderAndIsr answered by {broker_id}",
                lambda: self.brokers.leader_and_isr_answered(broker_id, request.sender.broker_epoch, answer),
            )
        elif isinstance(request, StopReplicaRequest):
            self._put(
                f"StopReplica answered by {broker_id}", lambda: self._stop_replica_answered(broker_id, request, answer)
            )

    async def _stop_replica_answered(self, broker_id: int, request: StopReplicaRequest, answer: Answer) -> None:
        """Handle deletions in the response. An error for the whole request applies to each of its partitions."""
        errors = answer.partition_errors or dict.fromkeys(request.partitions, answer.error_code)
        deleting = {
            tp: code
            for tp, code in errors.items()
            if tp in request.partitions
            and request.partitions[tp].delete
            and tp.topic in self.context.topics_with_deletion_started
        }
        await self._deletions.answered(broker_id, answer.error_code, deleting)

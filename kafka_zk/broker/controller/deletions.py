"""Runs the topic deletions that ``topic_deletion`` plans."""

from collections.abc import Collection, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events, topic_deletion
from kafka_zk.broker.controller.context import Replica
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.effects import SendUpdateMetadata
from kafka_zk.broker.controller.reporter import shortened
from kafka_zk.broker.controller.states import PartitionEvent, ReplicaEvent, ReplicaState
from kafka_zk.broker.controller.turns import PARTITION_COST
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes import admin


class Deletions:
    """Call ``run`` after any event that may unblock a deletion."""

    def __init__(self, tools: ControllerTools, *, enabled: bool) -> None:
        self._context, self._store, self._changes, self._reporter, self._turns = tools
        self._enabled = enabled

    async def load(self) -> None:
        """Load the requested deletions at failover; nothing is deleted before ``run``."""
        ordered = await self._known_orders()
        topic_deletion.enqueue_at_failover(self._context, ordered)

    async def ordered(self) -> None:
        """Handle a change of ``/admin/delete_topics``."""
        ordered = await self._known_orders()
        if ordered:
            self._reporter.info("deletion ordered: %s", shortened(ordered))
            topic_deletion.enqueue(self._context, ordered)
            await self.run()

    async def resume(self, topics: Collection[str]) -> None:
        """Continue deletions of these topics after a broker with replicas is back, or a reassignment ended."""
        waiting = self._context.topics_to_delete & set(topics)
        if waiting:
            topic_deletion.resume(self._context, waiting)
            await self.run()

    async def try_refused(self) -> None:
        """Retry deletions that live brokers rejected."""
        waiting = topic_deletion.waiting(self._context)
        await self._turn_for(waiting)
        await self.resume([topic for topic in waiting if topic_deletion.is_refused(self._context, topic)])

    async def replicas_failed(self, replicas: Sequence[Replica]) -> None:
        """Let the topics of these replicas wait for the broker's return or for the next retry."""
        if replicas:
            await self._changes.move_replicas_and_send(replicas, ReplicaEvent.DEFER_DELETION)
            topic_deletion.halt(self._context, {replica.partition.topic for replica in replicas})
            await self.run()

    async def answered(self, broker_id: int, request_error: int, errors: Mapping[TopicPartition, int]) -> None:
        """Handle a broker's response to StopReplica (delete) for partitions of topics to delete."""
        failed = [
            tp for tp, code in errors.items() if request_error != ErrorCode.NONE or code != ErrorCode.NONE
        ]
        deleted = [Replica(tp, broker_id) for tp in sorted(errors.keys() - failed)]
        await self.replicas_failed([Replica(tp, broker_id) for tp in failed])
        if deleted:
            await self._changes.move_replicas_and_send(deleted, ReplicaEvent.COMPLETE_DELETION)
            await self.run()

    async def run(self) -> None:
        """Complete, retry and start the deletions that are possible now."""
        await self._turn_for(self._context.topics_to_delete)
        plan = topic_deletion.plan(self._context)
        if plan.complete:
            await self._complete(plan.complete)
        await self._changes.move_replicas_and_send(plan.retry, ReplicaEvent.TAKE_OFFLINE)
        if plan.start:
            await self._start(plan.start)

    async def _known_orders(self) -> list[str]:
        """The requested topics. Requests for unknown topics are deleted; if deletion is disabled, all requests are
        deleted."""
        ordered = await self._store.children(admin.DELETE_TOPICS)
        known = [topic for topic in ordered if self._enabled and topic in self._context.topics]
        pointless = [topic for topic in ordered if not self._enabled or topic not in self._context.topics]
        if pointless:
            reason = "unknown topics" if self._enabled else "delete.topic.enable=false"
            removing = "removing %d entries of /admin/delete_topics (%s), the first: %.249s"
            self._reporter.info(removing, len(pointless), reason, pointless[0])
            await self._store.delete_all([admin.delete_topic_path(topic) for topic in pointless])
        return known

    async def _start(self, topics: Collection[str]) -> None:
        await self._turn_for(topics)
        unseen = [tp for t in topic_deletion.begin(self._context, topics) for tp in self._context.partitions_of(t)]
        await self._changes.move_partitions(unseen, PartitionEvent.TAKE_OFFLINE)
        await self._changes.move_partitions(unseen, PartitionEvent.DELETE)
        partitions = [tp for topic in sorted(topics) for tp in self._context.partitions_of(topic)]
        await self._changes.send([SendUpdateMetadata(None, partitions)])
        await self._turn_for(topics)
        replicas = topic_deletion.replicas_to_delete(self._context, topics)
        await self._changes.move_replicas_and_send(replicas.dead, ReplicaEvent.DEFER_DELETION)
        stopped = await self._changes.move_replicas(replicas.live, ReplicaEvent.TAKE_OFFLINE)
        await self._changes.send(
            [*stopped, *await self._changes.move_replicas(replicas.live, ReplicaEvent.START_DELETION)]
        )

    async def _turn_for(self, topics: Collection[str]) -> None:
        await self._turns.spend(sum(self._context.partition_count(topic) for topic in topics) * PARTITION_COST)

    async def _complete(self, topics: Sequence[str]) -> None:
        context = self._context
        await self._store.delete_topics({t: [tp.partition for tp in context.partitions_of(t)] for t in topics})
        replicas = [r for t in topics for r in context.replicas_in(t, ReplicaState.DELETION_SUCCESSFUL)]
        await self._changes.move_replicas_and_send(replicas, ReplicaEvent.FORGET)
        for topic in topics:
            await self._changes.forget_topic(topic)
            self._reporter.event(events.TopicDeleted, topic)
        self._reporter.forget(topics)
        self._store.forget(topics)
        self._reporter.info("deleted topics %s", shortened(topics))

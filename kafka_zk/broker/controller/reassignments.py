"""Runs the reassignments that ``reassignment`` plans, for many partitions at once."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import reassignment, topic_deletion
from kafka_zk.broker.controller.context import Replica, ReplicaAssignment
from kafka_zk.broker.controller.control_requests import by_topic, portions
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.deletions import Deletions
from kafka_zk.broker.controller.effects import Send, SendLeaderAndIsr, SendUpdateMetadata
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.reporter import shortened
from kafka_zk.broker.controller.states import ReplicaEvent, ReplicaState
from kafka_zk.broker.controller.store import StoredTopic
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.client import Delete, Operation, SetData, ZnodeStat
from kafka_zk.registry.client.errors import BadVersion, InvalidZnode, NoNode, NotEmpty, RegistryError
from kafka_zk.registry.znodes import admin
from kafka_zk.registry.znodes import topics as znodes

Assignments = Mapping[TopicPartition, ReplicaAssignment]


class Reassignments:
    """Call ``advance`` after any event that may unblock a reassignment."""

    def __init__(self, tools: ControllerTools, deletions: Deletions) -> None:
        self._context, self._store, self._changes, self._reporter, self._turns = tools
        self._deletions = deletions

    # -- events --

    async def resume_all(self) -> None:
        """Continue reassignments at failover. Requests in ZooKeeper replace those of the previous controller."""
        moving = self._context.partitions_being_reassigned()
        replaced = await self.ordered()
        await self._run([tp for tp in moving if tp not in replaced])

    async def resume_on(self, broker_ids: Collection[int]) -> None:
        """Begin or complete reassignments to brokers that have started."""
        moving = self._context.partitions_being_reassigned()
        await self._run([tp for tp in moving if set(broker_ids) & set(self._context.assignment(tp).target)])

    async def advance(self, tps: Iterable[TopicPartition]) -> None:
        """Complete reassignments of these partitions, whose ISRs have changed, if all other conditions are met."""
        moving = [tp for tp in tps if self._context.assignment(tp).is_being_reassigned]
        await self._complete(await self._completable(moving))

    async def ordered(self) -> set[TopicPartition]:
        """Handle a change of ``/admin/reassign_partitions``. Returns the partitions whose reassignments begin."""
        orders = (await self._store.reassignment_orders()).targets
        planned: dict[TopicPartition, ReplicaAssignment] = {}
        refused: dict[TopicPartition, ApiError] = {}
        for portion in portions(orders.items(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            for tp, target in portion:
                outcome = reassignment.plan(self._context, tp, target, needs_live=False)
                if isinstance(outcome, ApiError):
                    refused[tp] = outcome
                elif not (outcome.is_being_reassigned and outcome == self._context.assignment(tp)):
                    planned[tp] = outcome
        begun = await self._begin(planned)
        refused.update({tp: ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) for tp in planned.keys() - begun})
        if refused:
            self._reporter.info("not reassigned: %s", shortened([f"{tp} {error}" for tp, error in refused.items()]))
        # Partitions whose replicas do not change are done, even without a leader.
        settled = [tp for tp in begun if not planned[tp].is_being_reassigned]
        over = {tp: orders[tp] for tp in (*refused, *settled)}
        if over:
            await self._forget_orders(lambda tp, target: over.get(tp) == target)
        return begun

    async def alter(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Start reassignments, or cancel them (target None). Returns each partition's error, or None on success."""
        outcomes: dict[TopicPartition, ApiError | None] = {}
        planned: dict[TopicPartition, ReplicaAssignment] = {}
        for portion in portions(targets.items(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            for tp, target in portion:
                outcome = reassignment.plan(self._context, tp, target, needs_live=True)
                if isinstance(outcome, ApiError):
                    outcomes[tp] = outcome
                else:
                    planned[tp] = outcome
        await self._forget_orders(lambda tp, _: tp in planned)  # the latest request wins
        begun = await self._begin(planned)
        outcomes.update(
            {tp: None if tp in begun else ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) for tp in planned}
        )
        return {tp: outcomes[tp] for tp in targets}

    def listed(self, tps: Collection[TopicPartition] | None) -> dict[TopicPartition, ReplicaAssignment]:
        """The reassignments in progress among ``tps`` (None: all partitions)."""
        asked = self._context.partitions_being_reassigned() if tps is None else tps
        assignments = {tp: self._context.assignment(tp) for tp in asked}
        return {tp: assignment for tp, assignment in assignments.items() if assignment.is_being_reassigned}

    # -- phases --

    async def _begin(self, planned: Assignments) -> set[TopicPartition]:
        """Write the assignments. Returns the partitions that succeeded."""
        if not planned:
            return set()
        written = await self._write_assignments(planned)
        self._reporter.info("reassigned: %s", shortened([f"{tp} to {list(planned[tp].target)}" for tp in written]))
        unneeded: list[Replica] = []
        for tp in written:
            left = reassignment.unneeded(self._context.assignment(tp), planned[tp])
            unneeded += [Replica(tp, broker_id) for broker_id in left]
            self._context.assign(tp, planned[tp])
        await self._remove(unneeded)
        await self._run(written)
        return set(written)

    async def _run(self, tps: Sequence[TopicPartition]) -> None:
        """Run phase B if it can begin, otherwise phase A (again)."""
        topic_deletion.halt(self._context, {tp.topic for tp in tps})
        completable = await self._completable(tps)
        done = set(completable)
        await self._add_replicas([tp for tp in tps if tp not in done])
        await self._complete(completable)

    async def _completable(self, tps: Sequence[TopicPartition]) -> list[TopicPartition]:
        states = await self._store.states(tps)
        return [tp for tp in tps if reassignment.is_complete(self._context, tp, states[tp])]

    async def _add_replicas(self, tps: Sequence[TopicPartition]) -> None:
        """Run phase A."""
        context = self._context
        sends: list[Send] = []
        for tp in await self._changes.raise_leader_epochs(tps):
            assignment = context.assignment(tp)
            sends.append(SendLeaderAndIsr(assignment.origin, tp))
            sends.append(SendLeaderAndIsr(assignment.adding, tp, is_new=True))
        await self._changes.send(sends)
        added = [Replica(tp, broker_id) for tp in tps for broker_id in context.assignment(tp).adding]
        new = [r for r in added if context.replica_state(r) is ReplicaState.NON_EXISTENT]
        await self._changes.move_replicas_and_send(new, ReplicaEvent.CREATE)

    async def _complete(self, tps: Sequence[TopicPartition]) -> None:
        """Run phase B."""
        if not tps:
            return
        context = self._context
        moving = {tp: context.assignment(tp) for tp in tps}
        await self._changes.move_replicas_and_send(
            [Replica(tp, broker_id) for tp in tps for broker_id in moving[tp].adding], ReplicaEvent.BRING_ONLINE
        )
        for tp in tps:
            context.assign(tp, ReplicaAssignment(moving[tp].target))
        led = await self._lead_by_target(tps)
        for tp in set(tps) - led:
            context.assign(tp, moving[tp])  # no target replica can lead now; a later event retries
        done = [tp for tp in tps if tp in led]
        await self._remove([Replica(tp, broker_id) for tp in done for broker_id in moving[tp].removing])
        await self._write_assignments({tp: context.assignment(tp) for tp in done})
        if not done:
            return
        final = {tp: list(context.replicas(tp)) for tp in done}
        await self._forget_orders(lambda tp, target: final.get(tp) == list(target))
        await self._changes.send([SendUpdateMetadata(None, done)])
        self._reporter.info("reassignment done: %s", shortened([f"{tp} {final[tp]}" for tp in done]))
        still = {tp.topic for tp in context.partitions_being_reassigned()}
        await self._deletions.resume({tp.topic for tp in done} - still)

    async def _lead_by_target(self, tps: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Elect a leader in the target, or raise the current leader's epoch. Returns the partitions with a leader."""
        context = self._context
        others = [tp for tp in tps if reassignment.needs_leader(context, tp, context.replicas(tp))]
        elected = await self._changes.bring_online(others, ElectionStrategy.REASSIGN)
        waiting = set(others)
        raised = await self._changes.raise_leader_epochs([tp for tp in tps if tp not in waiting])
        await self._changes.send([SendLeaderAndIsr(context.replicas(tp), tp) for tp in raised])
        return {*elected, *raised}

    async def _remove(self, replicas: Sequence[Replica]) -> None:
        """Replace leaders among these replicas, remove the replicas from the ISR, then delete them."""
        if not replicas:
            return
        going = {(r.partition, r.broker_id) for r in replicas}
        leading = [tp for tp, broker_id in sorted(going) if self._is_led_by(tp, broker_id)]
        await self._changes.bring_online(leading, ElectionStrategy.OFFLINE)
        known = [r for r in replicas if self._context.replica_state(r) is not ReplicaState.NON_EXISTENT]
        for event in (
            ReplicaEvent.TAKE_OFFLINE,
            ReplicaEvent.START_DELETION,
            ReplicaEvent.COMPLETE_DELETION,
            ReplicaEvent.FORGET,
        ):
            await self._changes.move_replicas_and_send(known, event)

    def _is_led_by(self, tp: TopicPartition, broker_id: int) -> bool:
        info = self._context.leadership.get(tp)
        return info is not None and info.leader == broker_id

    # -- ZooKeeper --

    async def _write_assignments(self, assignments: Assignments) -> list[TopicPartition]:
        """Write the assignments, keeping other fields of the znodes. Returns the written partitions."""
        written: list[TopicPartition] = []
        topics = {topic: list(tps) for topic, tps in by_topic(assignments)}
        while topics:
            await self._turns.spend(sum(map(len, topics.values())) * PARTITION_COST)
            stored = await self._store.topics(list(topics))
            operations = self._assignment_operations(stored, topics, assignments)
            again: dict[str, list[TopicPartition]] = {}
            outcomes = await self._store.write(list(operations.values()))
            for topic, outcome in zip(operations, outcomes, strict=True):
                if isinstance(outcome, BadVersion):
                    again[topic] = topics[topic]
                elif isinstance(outcome, RegistryError):
                    self._reporter.info("the assignment of %s was not written: %r", topic, outcome)
                else:
                    written += topics[topic]
                    if isinstance(outcome, ZnodeStat) and stored[topic].zxid == self._context.topic_zxids.get(topic):
                        self._context.topic_zxids[topic] = outcome.mzxid  # so that the watch ignores this write
            topics = again
        return written

    def _assignment_operations(
        self,
        stored: Mapping[str, StoredTopic],
        topics: Mapping[str, Sequence[TopicPartition]],
        assignments: Assignments,
    ) -> dict[str, Operation]:
        operations: dict[str, Operation] = {}
        for topic, entry in stored.items():
            changed: dict[int, znodes.Moving] = {tp.partition: assignments[tp] for tp in topics[topic]}
            try:
                data = znodes.with_replicas(topic, entry.data, changed)
            except InvalidZnode as error:
                self._reporter.info("the assignment of %s was not written: %s", topic, error)
            else:
                operations[topic] = SetData(znodes.topic_path(topic), data, entry.zk_version)
        return operations

    async def _forget_orders(self, which: Callable[[TopicPartition, Sequence[int]], bool]) -> None:
        """Delete the requests that are done or replaced, and keep those that are added concurrently.

        A concurrent request is lost only if the znode is recreated and has an equal version.
        """
        path = admin.REASSIGN_PARTITIONS
        gone: dict[TopicPartition, list[int]] | None = None
        while True:
            orders, stat = await self._store.reassignment_orders()
            if gone is None:
                gone = {tp: target for tp, target in orders.items() if which(tp, target)}
            left = {tp: target for tp, target in orders.items() if gone.get(tp) != target}
            if stat is None or len(left) == len(orders):
                return
            write = SetData(path, admin.encode_reassignment(left), stat.version) if left else Delete(path, stat.version)
            (outcome,) = await self._store.write([write], {path: stat.czxid})
            if not isinstance(outcome, BadVersion):
                break
        if isinstance(outcome, NotEmpty):
            await self._store.delete_all([path])
        elif isinstance(outcome, RegistryError) and not isinstance(outcome, NoNode):
            self._store.cannot_use(path, outcome)

"""Runs the two state machines: reads and writes their znodes, then sends the resulting requests.

One call is one ``handleStateChanges`` in Kafka: requests are sent together at its end. Illegal or impossible changes
are reported and change nothing. Many changes are made in portions; the reactor does other work in between.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import partition_state, replica_state
from kafka_zk.broker.controller.context import Context, LeadershipInfo, Replica
from kafka_zk.broker.controller.control_requests import by_topic, portions
from kafka_zk.broker.controller.effects import CreateState, FailedChange, Send, SendLeaderAndIsr, WriteState
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.reporter import ControllerReporter
from kafka_zk.broker.controller.states import PartitionEvent, PartitionState, ReplicaEvent
from kafka_zk.broker.controller.store import ControllerStore
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN
from kafka_zk.registry.client.client import Create, Operation, SetData, ZnodeStat
from kafka_zk.registry.client.errors import BadVersion, NodeExists, RegistryError
from kafka_zk.registry.znodes import topics

States = Mapping[TopicPartition, LeadershipInfo | None]


class Decision(NamedTuple):
    """States to write, failures, and states that are already correct."""

    writes: list[WriteState]
    refused: list[FailedChange]
    unchanged: Sequence[WriteState] = ()


Decide = Callable[[States], Awaitable[Decision]]

UNCLEAN_KEY = "unclean.leader.election.enable"


class StateChanges:
    """Changes the context, ZooKeeper and (through ``send``) the brokers, in this order.

    Args:
        collect: accepts effects and sends the LeaderAndIsr requests that are full.
        send: accepts the last effects of a change and sends all requests.
        unclean_by_default: whether topics without their own setting allow unclean elections.
    """

    def __init__(
        self,
        context: Context,
        store: ControllerStore,
        collect: Callable[[Collection[Send]], Awaitable[None]],
        send: Callable[[Collection[Send]], Awaitable[None]],
        reporter: ControllerReporter,
        unclean_by_default: bool,
        turns: Turns,
    ) -> None:
        self._context = context
        self._store = store
        self._collect = collect
        self._send = send
        self._reporter = reporter
        self.unclean_by_default = unclean_by_default
        self._turns = turns

    async def send(self, effects: Collection[Send]) -> None:
        await self._send(effects)

    async def move_partitions(self, partitions: Sequence[TopicPartition], event: PartitionEvent) -> None:
        """Apply an event other than BRING_ONLINE to partitions."""
        for portion in portions(partitions, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            legal, illegal = self._context.split_legal_partitions(portion, event)
            self._report_illegal_partitions(illegal, event)
            partition_state.move(self._context, legal, event)
            self._reporter.partitions_moved(legal, event.target)

    async def bring_online(
        self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy
    ) -> dict[TopicPartition, LeadershipInfo]:
        """Elect the first leaders of New partitions, and leaders of other partitions by ``strategy``. Returns the new
        leadership.

        Works in portions, so that brokers open one portion's logs while ZooKeeper writes the next portion's znodes.
        """
        elected: dict[TopicPartition, LeadershipInfo] = {}
        for portion in portions(partitions, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            legal, illegal = self._context.split_legal_partitions(portion, PartitionEvent.BRING_ONLINE)
            self._report_illegal_partitions(illegal, PartitionEvent.BRING_ONLINE)
            new = [tp for tp in legal if self._context.partition_state(tp) is PartitionState.NEW]
            led = [tp for tp in legal if self._context.partition_state(tp) is not PartitionState.NEW]
            sends = [*await self._create_leadership(new), *await self._elect(led, strategy)]
            elected.update((send.partition, self._context.leadership[send.partition]) for send in sends)
            await self._collect(sends)
        self._reporter.leaders_elected(elected, strategy)
        await self._send(())
        return elected

    async def elect_waiting(self) -> dict[TopicPartition, LeadershipInfo]:
        """Elect leaders of all partitions without a live leader."""
        return await self.bring_online(partition_state.electable(self._context), ElectionStrategy.OFFLINE)

    async def elect_returned(self) -> dict[TopicPartition, LeadershipInfo]:
        """Elect leaders again where a member of the ISR was away unnoticed or started uncleanly."""
        returned: list[TopicPartition] = []
        for portion in portions(self._context.partitions(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            returned += partition_state.returned(self._context, portion)
        return await self.bring_online(returned, ElectionStrategy.RETURNED) if returned else {}

    async def elect_electable(self) -> None:
        await self.bring_online(await self.electable(), ElectionStrategy.OFFLINE)

    async def electable(self) -> list[TopicPartition]:
        """Leaderless partitions with a live candidate, whose obstacle may have disappeared."""
        found: list[TopicPartition] = []
        for portion in portions(partition_state.electable(self._context), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            found += [tp for tp in portion if partition_state.has_candidate(self._context, tp)]
        return found

    async def move_replicas_and_send(self, replicas: Sequence[Replica], event: ReplicaEvent) -> None:
        """Apply an event to replicas, and send the requests that follow."""
        await self._send(await self.move_replicas(replicas, event))

    async def move_replicas(self, replicas: Sequence[Replica], event: ReplicaEvent) -> list[Send]:
        """Like ``move_replicas_and_send``, but return the effects, so that several changes can share requests."""
        sends: list[Send] = []
        target = event.target
        for portion in portions(replicas, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            legal, illegal = self._context.split_legal_replicas(portion, event)
            self._report_illegal_replicas(illegal, event)
            if event is ReplicaEvent.TAKE_OFFLINE:
                sends += await self._take_offline(legal)
            else:
                caused, refused = replica_state.move(self._context, legal, event)
                sends += caused
                self._reporter.refused(refused, target.value)
            moved = [r for r in legal if self._context.replica_state(r) is target]
            self._reporter.replicas_moved(moved, target)
        return sends

    async def forget_topic(self, topic: str) -> None:
        for portion in portions(self._context.partitions_of(topic), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            self._context.remove_partitions(portion)
        self._context.remove_topic(topic)

    async def raise_leader_epochs(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Raise leader epochs in ZooKeeper without sending requests. Returns the written partitions."""

        async def decide(current: States) -> Decision:
            writes, refused = partition_state.raise_leader_epochs(self._context, current)
            return Decision(writes, refused)

        written, _ = await self._write_decided(partitions, decide, PartitionState.ONLINE.value)
        self._context.leadership.update({write.partition: write.info for write in written})
        return [write.partition for write in written]

    # -- partitions --

    async def _create_leadership(self, partitions: Collection[TopicPartition]) -> list[SendLeaderAndIsr]:
        creates, refused = partition_state.create_leadership(self._context, partitions)
        operations = self._create_operations(creates)
        outcomes = dict(
            zip((operation.path for operation in operations), await self._store.write(operations), strict=True)
        )
        sends = []
        present = []
        for create in creates:
            outcome = outcomes[topics.state_path(create.partition.topic, create.partition.partition)]
            if isinstance(outcome, NodeExists):
                present.append(create.partition)
            elif isinstance(outcome, RegistryError):
                refused.append(FailedChange(create.partition, repr(outcome)))
            else:
                sends.append(partition_state.established(self._context, create, zk_version=0))
        self._reporter.refused(refused, PartitionState.ONLINE.value)
        return [*sends, *await self._elect_present(present)]

    async def _elect_present(self, partitions: Sequence[TopicPartition]) -> list[SendLeaderAndIsr]:
        """Elect leaders of partitions that seemed New, because their topic or state was invalid when the term
        began."""
        states = await self._store.states(partitions)
        unknown = [tp for tp, info in states.items() if info is None]
        self._reporter.refused(
            [FailedChange(tp, "its state znode is invalid") for tp in unknown], PartitionState.ONLINE.value
        )
        known = {tp: info for tp, info in states.items() if info is not None}
        for tp, info in known.items():
            partition_state.adopt(self._context, tp, info)
        return await self._elect(list(known), ElectionStrategy.OFFLINE)

    def _create_operations(self, creates: Iterable[CreateState]) -> list[Operation]:
        """Create a topic's parent znode, unless one of its partitions has a leader, and two znodes per partition."""
        operations: list[Operation] = []
        infos = {create.partition: create.info for create in creates}
        for topic, partitions in by_topic(infos):
            if not any(tp in self._context.leadership for tp in self._context.partitions_of(topic)):
                operations.append(Create(topics.partitions_path(topic)))
            for tp in partitions:
                operations.append(Create(topics.partition_path(topic, tp.partition)))
                operations.append(Create(topics.state_path(topic, tp.partition), topics.encode_state(infos[tp])))
        return operations

    async def _elect(self, partitions: Sequence[TopicPartition], strategy: ElectionStrategy) -> list[SendLeaderAndIsr]:
        async def decide(current: States) -> Decision:
            unclean = await self._unclean_topics(current) if strategy is ElectionStrategy.OFFLINE else ()
            writes, refused = partition_state.elect(self._context, strategy, current, unclean)
            return Decision(writes, refused)

        written, _ = await self._write_decided(partitions, decide, PartitionState.ONLINE.value)
        return [partition_state.established(self._context, write, write.info.zk_version) for write in written]

    async def _unclean_topics(self, current: States) -> list[str]:
        """Topics that need an unclean election and allow it."""
        needing = partition_state.topics_without_live_isr(self._context, current)
        if not needing:
            return []
        default = "true" if self.unclean_by_default else "false"
        configs = await self._store.topic_configs(needing)
        return [topic for topic in needing if configs[topic].get(UNCLEAN_KEY, default).lower() == "true"]

    # -- replicas --

    async def _take_offline(self, replicas: Sequence[Replica]) -> list[Send]:
        sends: list[Send] = []
        for broker_id, group in groupby(sorted(replicas, key=lambda r: r.broker_id), key=lambda r: r.broker_id):
            stops, led, others = replica_state.stop(self._context, list(group))
            sends.extend(stops)
            sends.extend(await self._remove_from_isrs(broker_id, [replica.partition for replica in led]))
            sends.extend(replica_state.offline_without_leadership(self._context, others))
        return sends

    async def _remove_from_isrs(self, broker_id: int, partitions: Sequence[TopicPartition]) -> list[Send]:
        async def decide(current: States) -> Decision:
            return Decision(*replica_state.remove_from_isr(self._context, broker_id, current))

        written, unchanged = await self._write_decided(partitions, decide, ReplicaEvent.TAKE_OFFLINE.target.value)
        self._reporter.isrs_changed({write.partition: write.info for write in written})
        return [
            *replica_state.removed_from_isr(self._context, broker_id, written),
            *replica_state.was_not_in_isr(self._context, broker_id, unchanged),
        ]

    # -- both --

    async def _write_decided(
        self, partitions: Iterable[TopicPartition], decide: Decide, target: str
    ) -> tuple[list[WriteState], list[WriteState]]:
        """Write the states that ``decide`` returns. Returns the written states, and the states that were already
        correct.

        Only controllers create and delete state znodes, so known states are used without a read. The version check
        prevents a write that is based on an outdated state. If the check fails, or ``decide`` rejects a state, the
        state is read again.
        """
        written: list[WriteState] = []
        unchanged: list[WriteState] = []
        current: States = {tp: self._context.leadership.get(tp) for tp in partitions}
        is_read = False
        while current:
            decision = await decide(current)
            done, again, failed = await self.write_states(decision.writes)
            written += done
            unchanged += decision.unchanged
            self._reporter.refused([*(decision.refused if is_read else ()), *failed], target)
            if not is_read:
                again += [refused.partition for refused in decision.refused]
            current = await self._store.states(again)
            is_read = True
        return written, unchanged

    async def write_states(
        self, writes: Sequence[WriteState]
    ) -> tuple[list[WriteState], list[TopicPartition], list[FailedChange]]:
        """Returns the written states with new versions, the partitions that another client changed, and failures."""
        operations: list[Operation] = [
            SetData(
                topics.state_path(write.partition.topic, write.partition.partition),
                topics.encode_state(write.info),
                write.info.zk_version,
            )
            for write in writes
        ]
        written: list[WriteState] = []
        changed: list[TopicPartition] = []
        failed: list[FailedChange] = []
        for write, outcome in zip(writes, await self._store.write(operations), strict=True):
            if isinstance(outcome, ZnodeStat):
                info = replace(write.info, zk_version=outcome.version, zxid=outcome.mzxid)
                written.append(write._replace(info=info))
            elif isinstance(outcome, BadVersion):
                changed.append(write.partition)
            else:
                failed.append(FailedChange(write.partition, repr(outcome)))
        return written, changed, failed

    def _report_illegal_partitions(self, partitions: Iterable[TopicPartition], event: PartitionEvent) -> None:
        target = event.target.value
        refused = [
            FailedChange(tp, f"{self._context.partition_state(tp).value} -> {target} is not legal") for tp in partitions
        ]
        self._reporter.refused(refused, target)

    def _report_illegal_replicas(self, replicas: Iterable[Replica], event: ReplicaEvent) -> None:
        target = event.target.value
        refused = [
            FailedChange(r.partition, f"replica {r.broker_id}: {self._context.replica_state(r).value} -> {target}")
            for r in replicas
        ]
        self._reporter.refused(refused, target)

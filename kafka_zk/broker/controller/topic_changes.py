"""Follows topics and assignments in ZooKeeper.

The znodes are the truth; a watch is a hint to read and compare.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Replica, ReplicaAssignment, assignment_of
from kafka_zk.broker.controller.control_requests import portions, whole_topics
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.reporter import shortened
from kafka_zk.broker.controller.states import PartitionEvent, ReplicaEvent
from kafka_zk.broker.controller.store import StoredTopic
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN
from kafka_zk.protocol import uuids
from kafka_zk.registry.client.client import Operation, SetData, ZnodeStat
from kafka_zk.registry.client.errors import BadVersion, NoNode, RegistryError
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.topics import TopicAssignment


class TopicChanges:
    """Keeps the context's topics equal to ZooKeeper's and creates new partitions."""

    def __init__(self, tools: ControllerTools, random: Random) -> None:
        self._context, self._store, self._changes, self._reporter, self._turns = tools
        self._random = random

    async def load(self) -> None:
        """Load topics, assignments, ids and leadership at failover."""
        context = self._context
        context.topics = await self._store.topic_names()
        await self._adopt(await self._read(sorted(context.topics)))
        states = await self._store.states(context.partitions())
        context.leadership = {tp: info for tp, info in states.items() if info is not None}

    async def names_changed(self) -> tuple[list[str], list[str]]:
        """Handle a change of ``/brokers/topics``. Returns added topics, then removed ones."""
        context = self._context
        names = await self._store.topic_names()
        added, removed = sorted(names - context.topics), sorted(context.topics - names)
        for topic in removed:
            await self._changes.forget_topic(topic)
        if removed:
            self._reporter.forget(removed)
            self._store.forget(removed)
        context.topics = names
        partitions = await self._adopt(await self._read(added))
        if added or removed:
            self._reporter.info("topics added: %s; removed: %s", shortened(added), shortened(removed))
        await self._create_partitions(partitions)
        return added, removed

    async def assignment_changed(self, topic: str) -> None:
        """Create new partitions. Changed replicas of existing partitions are ignored, as in Kafka."""
        stored = (await self._read([topic])).get(topic)
        if stored is None or topic not in self._context.topics:
            return
        if stored.assignment.topic_id is not None:
            self._context.topic_ids.setdefault(topic, stored.assignment.topic_id)
        self._context.topic_zxids[topic] = stored.zxid
        known = self._context.assignments.get(topic, {})
        added = sorted(stored.assignment.partitions.keys() - known.keys())
        if added and topic in self._context.topics_to_delete:
            self._reporter.info("%s is being deleted: partitions %s are not added", topic, shortened(added))
            await self._write_assignment(topic, self._stored_form(topic, known), stored.zk_version)
        elif added:
            await self._assign(topic, added, stored.assignment)
            self._reporter.info("%s has %d new partitions", topic, len(added))
            await self._create_partitions([TopicPartition(topic, number) for number in added])

    def is_news(self, topic: str, zxid: int) -> bool:
        """True if the znode that a watch saw must be read. ``zxid``: the znode's last write."""
        return topic in self._context.topics and zxid != self._context.topic_zxids.get(topic)

    async def _read(self, names: Sequence[str]) -> dict[str, StoredTopic]:
        """Read topics with their ids; a missing id is written to the znode."""
        found: dict[str, StoredTopic] = {}
        wanted = list(names)
        while wanted:
            stored = await self._store.topics(wanted)
            missing = {t: e for t, e in stored.items() if e.assignment.topic_id is None and e.assignment.partitions}
            with_ids, wanted = await self._with_new_ids(missing)
            found |= {topic: entry for topic, entry in stored.items() if topic not in missing} | with_ids
        return {topic: found[topic] for topic in names if topic in found}

    async def _with_new_ids(self, stored: Mapping[str, StoredTopic]) -> tuple[dict[str, StoredTopic], list[str]]:
        """Write missing ids. Returns the topics with ids, then the topics that another client has changed since."""
        ids = {topic: self._context.topic_ids.get(topic) or self._new_id() for topic in stored}
        operations: list[Operation] = [
            SetData(znodes.topic_path(topic), znodes.with_topic_id(topic, entry.data, ids[topic]), entry.zk_version)
            for topic, entry in stored.items()
        ]
        found: dict[str, StoredTopic] = {}
        again: list[str] = []
        for (topic, entry), outcome in zip(stored.items(), await self._store.write(operations), strict=True):
            if isinstance(outcome, BadVersion):
                again.append(topic)
            elif isinstance(outcome, RegistryError) and not isinstance(outcome, NoNode):
                self._store.cannot_use(znodes.topic_path(topic), f"no topic id can be added: {outcome!r}")
                is_known = topic in self._context.topic_ids  # brokers would not serve a topic without an id
                found[topic] = entry if is_known else entry._replace(assignment=TopicAssignment({}))
            elif isinstance(outcome, ZnodeStat):
                assignment = replace(entry.assignment, topic_id=ids[topic])
                found[topic] = StoredTopic(assignment, outcome.version, outcome.mzxid)
        return found, again

    def _new_id(self) -> str:
        return uuids.to_text(uuids.random_topic_id(self._random))

    async def _adopt(self, stored: Mapping[str, StoredTopic]) -> list[TopicPartition]:
        for topic, entry in stored.items():
            self._context.topic_zxids[topic] = entry.zxid
            if entry.assignment.topic_id is not None:
                self._context.topic_ids[topic] = entry.assignment.topic_id
            await self._assign(topic, entry.assignment.partitions, entry.assignment)
        return [tp for topic in sorted(stored) for tp in self._context.partitions_of(topic)]

    async def _assign(self, topic: str, numbers: Iterable[int], assignment: TopicAssignment) -> None:
        for portion in portions(numbers, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            for number in portion:
                self._context.assign(TopicPartition(topic, number), assignment_of(assignment, number))

    async def _create_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Move partitions to New, then to Online, which sends LeaderAndIsr. Works in portions, so that brokers open the
        logs of one portion while ZooKeeper writes the znodes of the next.
        """
        for portion in whole_topics(partitions):
            replicas = await self._replicas_of(portion)
            await self._changes.move_partitions(portion, PartitionEvent.CREATE)
            await self._changes.move_replicas_and_send(replicas, ReplicaEvent.CREATE)
            await self._changes.bring_online(portion, ElectionStrategy.OFFLINE)
            await self._changes.move_replicas_and_send(replicas, ReplicaEvent.BRING_ONLINE)

    async def _replicas_of(self, partitions: Sequence[TopicPartition]) -> list[Replica]:
        replicas: list[Replica] = []
        for portion in portions(partitions, PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            replicas += self._context.replicas_of(portion)
        return replicas

    def _stored_form(self, topic: str, known: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
        return TopicAssignment(
            {number: list(a.replicas) for number, a in sorted(known.items())},
            self._context.topic_ids.get(topic),
            {number: list(a.adding) for number, a in sorted(known.items()) if a.adding},
            {number: list(a.removing) for number, a in sorted(known.items()) if a.removing},
        )

    async def _write_assignment(self, topic: str, assignment: TopicAssignment, zk_version: int) -> None:
        """Write an assignment; if another client has changed the znode, the watch leads to another attempt."""
        operation = SetData(znodes.topic_path(topic), znodes.encode_assignment(assignment), zk_version)
        await self._store.write([operation])

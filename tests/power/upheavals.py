"""Changes of topics by an operator while clients write to them: moves, policies, DeleteRecords, new topics."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError

from tests.power import topics as names
from tests.power.history import Topic
from tests.power.topics import fresh
from tests.power.workload import Workload

_POLICIES = ("delete", "compact", "compact,delete")


class Upheavals:
    """Changes one after the other, chosen by ``rng``. The broker responds to a move before the move is done.

    Args: log_dirs: those of the broker ``broker_id``, between which replicas move. replicas: the lists of brokers
    between which reassigned topics alternate.
    """

    def __init__(
        self, client: KafkaAdminClient, workload: Workload, rng: random.Random, broker_id: int,
        log_dirs: Sequence[Path], replicas: Sequence[Sequence[int]] = (),
    ) -> None:  # fmt: skip
        self._client = client
        self._workload = workload
        self._random = rng
        self._broker_id = broker_id
        self._log_dirs = log_dirs
        self._replicas = replicas
        self._step = 0
        self.fresh: list[Topic] = []

    def step(self) -> None:
        """Make the next change."""
        self._step += 1
        actions = [self._move, self._move, self._change_policy, self._trim]
        actions.append(self._reassign if self._replicas else self._create)
        self._random.choice(actions)()

    def _known(self, *wanted: str) -> list[str]:
        return [name for name in wanted if name in self._workload.history.acknowledged]

    def _move(self) -> None:
        for name in self._known(names.MOVED, names.MOVED_COMPACTED):
            target = str(self._random.choice(self._log_dirs))
            with suppress(KafkaError):  # the previous move may still be in progress
                self._client.alter_replica_log_dirs({(name, 0, self._broker_id): target})

    def _change_policy(self) -> None:
        policy = {"cleanup.policy": self._random.choice(_POLICIES)}
        self._client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, names.CHANGED, policy)])

    def _trim(self) -> None:
        acknowledged = self._workload.history.acknowledged[names.TRIMMED]
        if acknowledged:
            offset = self._random.choice(acknowledged[-1000:]).offset
            with suppress(KafkaError):  # another request has moved the log start further
                self._client.delete_records({TopicPartition(names.TRIMMED, 0): offset})

    def _create(self) -> None:
        topic = fresh(self._step)
        create(self._client, [topic], [[0]])
        self.fresh.append(topic)
        self._workload.add(topic)

    def _reassign(self) -> None:
        target = list(self._random.choice(self._replicas))
        for name in self._known(names.REASSIGNED, names.REASSIGNED_COMPACTED):
            with suppress(KafkaError):
                self._client.alter_partition_reassignments({TopicPartition(name, 0): target})


def create(client: KafkaAdminClient, topics: Sequence[Topic], replicas: Sequence[Sequence[int]]) -> None:
    """Create topics, each with one of the lists of brokers in turn, and wait for their leaders. Raises: KafkaError."""
    client.create_topics(
        {
            topic.name: {
                "assignments": {0: list(replicas[number % len(replicas)])},
                "configs": dict(topic.config),
            }
            for number, topic in enumerate(topics)
        }
    )
    client.wait_for_topics([topic.name for topic in topics], timeout_ms=30_000)

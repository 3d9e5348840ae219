"""A member of a lesson's broker group."""

from collections.abc import Collection, Mapping
from typing import Any

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.reactor_thread import ReactorThread
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.consumer import Consumer
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.learn.lesson.gate import Gate
from kafka_zk.learn.lesson.member import COMMIT_INTERVAL_MS, LessonMember
from kafka_zk.network.client import KafkaConnection, connect
from kafka_zk.rebalance.events import DeliveryStarted, DeliveryStopped

HEARTBEAT_MS = 300
SESSION_TIMEOUT_MS = 1_500
_PATIENCE_MS = 1_000
"""For how long a member with cut connections tries to leave."""


class BrokerMember(LessonMember):
    """Reports when it stops and starts delivery; its coordinator reports everything else."""

    def __init__(
        self, thread: ReactorThread, gate: Gate, bootstrap: str, group: str, name: str, topic: str, strategy: str
    ) -> None:
        super().__init__(thread, gate, name)
        self._killed = False
        self._connections: list[KafkaConnection] = []
        self.consumer = Consumer(
            thread.reactor,
            listener=_Listener(self),
            connect=self._connect,
            group_id=group,
            client_id=name,
            bootstrap_servers=bootstrap,
            partition_assignment_strategy=strategy,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=COMMIT_INTERVAL_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            request_timeout_ms=_PATIENCE_MS,
            default_api_timeout_ms=_PATIENCE_MS,
            fetch_max_wait_ms=20,
        )
        self.consumer.subscribe([topic])

    def kill(self) -> None:
        """The coordinator notices when the member's session expires."""

        async def cut() -> None:
            for connection in self._connections:
                if connection.connected_to_broker and connection.transport is not None:
                    connection.transport.abortConnection()
            run(self.consumer.close()).addErrback(lambda failure: failure.trap(Exception) and None)

        self.alive = False
        self._killed = True
        self._thread.call(cut)

    def close(self) -> None:
        """Leave the group. Does nothing after ``kill``."""
        if not self._killed:
            super().close()

    def stopped(self, tps: Collection[TopicPartition]) -> None:
        if not self._killed:
            event = DeliveryStopped(wall_ms(), self.name, "the group rebalances", 0, tuple(sorted(tps)))
            self._happened(event, None)

    def started(self, tps: Collection[TopicPartition]) -> None:
        if not self._killed:
            event = DeliveryStarted(wall_ms(), self.name, "assigned", 0, dict.fromkeys(sorted(tps), -1))
            self._happened(event, None)

    async def _connect(self, *args: Any, **options: Any) -> KafkaConnection:
        if self._killed:
            raise ConnectionRefusedError(f"{self.name} is dead")
        connection = await connect(*args, **options)
        self._connections.append(connection)
        return connection


class _Listener(RebalanceListener):
    def __init__(self, member: BrokerMember) -> None:
        self._member = member

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> None:
        self._member.stopped(partitions)

    def before_starting_fetchers(self, consumer_id: str, partitions: Mapping[TopicPartition, int]) -> None:
        self._member.started(partitions)

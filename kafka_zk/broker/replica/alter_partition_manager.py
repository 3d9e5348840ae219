"""A leader's requests to the controller to change an ISR (AlterPartition, KIP-497).

One request at a time carries all waiting changes, at most one per partition. A change waits for a response even if the
connection or the controller changes. After a failure or rejection, the next request follows after RETRY_BACKOFF_S.

Source: AlterPartitionManager.scala@3.9.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.isr_state import WrittenIsr
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

RETRY_BACKOFF_S = 0.05
LOWEST_VERSION, HIGHEST_VERSION = 0, 3

_TOPIC_IDS_SINCE = 2
_BROKER_EPOCHS_SINCE = 3
_UNKNOWN_BROKER_EPOCH = -1
"""Sent as the broker epoch of each ISR member, because leaders do not know these epochs in ZooKeeper mode."""

_log = Logger()
_Request = codec.request(ApiKey.ALTER_PARTITION)
_Topic = _Request.TopicData
_Partition = _Topic.PartitionData


class IsrChange(NamedTuple):
    """The proposed ISR, and the epochs that the leader knows.

    ``partition_epoch``: the state znode's version. ``controller_epoch``: the epoch of the controller that appointed the
    leader.
    """

    tp: TopicPartition
    topic_id: uuid.UUID
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


Answer: TypeAlias = WrittenIsr | ErrorCode
Answered = Callable[[Answer], None]


class AlterPartitions(Protocol):
    """Writes ISR changes through the controller or to ZooKeeper."""

    def submit(self, change: IsrChange, answered: Answered) -> None:
        """Calls ``answered`` once, with the written ISR or an error code. If another change of the partition is in
        progress, calls it immediately with OPERATION_NOT_ATTEMPTED."""


class ControllerConnection(Protocol):
    """The methods of ``KafkaConnection`` that a manager uses."""

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """Lowest and highest version of each API."""

    def request(self, api_key: int, message: Any, *, version: int) -> Awaitable[Any]:
        """Send a request. Raises if the connection is lost or the request times out."""


class _Item(NamedTuple):
    change: IsrChange
    answered: Answered


class UnsupportedController(Exception):
    """The controller and this broker share no version of AlterPartition."""


class AlterPartitionManager:
    """Sends the ISR changes of this broker.

    Args:
        broker_epoch: returns the epoch of the current registration.
        connected: connects to the current controller; may raise any exception.
        highest_version: the highest version that ``inter.broker.protocol.version`` allows.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        clock: Timers,
        connected: Callable[[], Awaitable[ControllerConnection]],
        highest_version: int = HIGHEST_VERSION,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._connected = connected
        self._highest_version = highest_version
        self._waiting: dict[TopicPartition, _Item] = {}
        self._is_running = False
        self._is_closed = False
        self._last_failure = ""

    @property
    def waiting_count(self) -> int:
        """Changes without a response."""
        return len(self._waiting)

    def submit(self, change: IsrChange, answered: Answered) -> None:
        """See ``AlterPartitions``."""
        if self._is_closed or change.tp in self._waiting:
            answered(ErrorCode.OPERATION_NOT_ATTEMPTED)
            return
        self._waiting[change.tp] = _Item(change, answered)
        if not self._is_running:
            self._is_running = True
            ensureDeferred(self._run())

    def close(self) -> None:
        """Drop waiting changes, which get no response."""
        self._is_closed = True
        self._waiting.clear()

    async def _run(self) -> None:
        while self._waiting:
            try:
                is_done = await self._exchange(list(self._waiting.values()))
            except Exception as error:  # the controller may not have received the request
                self._failed(f"{type(error).__name__}: {error}")
                is_done = False
            if not is_done:
                await after(self._clock, RETRY_BACKOFF_S)
        self._is_running = False

    def _failed(self, why: str) -> None:
        """Log a failure once, not at every retry."""
        if why != self._last_failure and not self._is_closed:
            _log.warn("AlterPartition failed and is sent again: {why}", why=why)
        self._last_failure = why

    async def _exchange(self, items: Sequence[_Item]) -> bool:
        """Returns True if all changes were written."""
        connection = await self._connected()
        version = self._version(connection, items)
        message = _request(self._broker_id, self._broker_epoch(), version, [item.change for item in items])
        response = await connection.request(ApiKey.ALTER_PARTITION, message, version=version)
        if response.error_code:
            self._failed(ErrorCode.of(response.error_code).name)
            return False
        self._last_failure = ""
        answers = _answers(response, version, [item.change for item in items])
        for item in items:
            answer = answers.get(item.change.tp)
            if answer is not None and self._waiting.pop(item.change.tp, None) is not None:
                item.answered(answer)
        return all(isinstance(answers.get(item.change.tp), WrittenIsr) for item in items)

    def _version(self, connection: ControllerConnection, items: Sequence[_Item]) -> int:
        """The highest common version; the versions with topic ids can be used only if every topic has an id."""
        lowest, highest = connection.versions.get(ApiKey.ALTER_PARTITION, (0, -1))
        have_ids = all(item.change.topic_id != uuids.ZERO for item in items)
        version = min(highest, self._highest_version if have_ids else min(self._highest_version, _TOPIC_IDS_SINCE - 1))
        if version < max(lowest, LOWEST_VERSION):
            raise UnsupportedController(f"it supports versions {lowest} to {highest} of AlterPartition")
        return version


def _request(broker_id: int, broker_epoch: int, version: int, changes: Iterable[IsrChange]) -> Any:
    topics: dict[tuple[str, uuid.UUID], list[Any]] = {}
    for change in changes:
        topics.setdefault((change.tp.topic, change.topic_id), []).append(_partition(version, change))
    by_id = version >= _TOPIC_IDS_SINCE
    return _Request(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        topics=[
            _Topic(partitions=partitions, **({"topic_id": topic_id} if by_id else {"topic_name": name}))
            for (name, topic_id), partitions in topics.items()
        ],
    )


def _partition(version: int, change: IsrChange) -> Any:
    isr: dict[str, Any] = {"new_isr": list(change.isr)}
    if version >= _BROKER_EPOCHS_SINCE:
        members = [_Partition.BrokerState(broker_id=each, broker_epoch=_UNKNOWN_BROKER_EPOCH) for each in change.isr]
        isr = {"new_isr_with_epochs": members}
    return _Partition(
        partition_index=change.tp.partition,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        leader_recovery_state=0,
        **isr,
    )


def _answers(response: Any, version: int, changes: Iterable[IsrChange]) -> dict[TopicPartition, Answer]:
    names = {change.topic_id: change.tp.topic for change in changes}
    answers: dict[TopicPartition, Answer] = {}
    for topic in response.topics:
        name = names.get(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.topic_name
        if name is None:
            continue
        for told in topic.partitions:
            tp = TopicPartition(name, told.partition_index)
            if told.error_code:
                answers[tp] = ErrorCode.of(told.error_code)
            else:
                answers[tp] = WrittenIsr(told.leader_epoch, tuple(told.isr), told.partition_epoch)
    return answers

"""A transaction coordinator and a group coordinator in memory, which may refuse requests, lose responses and move."""

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import ResponseLost, broker_error
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
)


@dataclass
class ModelCoordinator:
    """The coordinator of one transactional id. ``fault_rate``: the probability that a request is refused, or that its
    response is lost. ``delayed``: lost EndTxn requests, which may arrive later. ``unreachable_count``: number of the
    next requests that cannot be sent.
    """

    rng: random.Random
    fault_rate: float = 0.0
    producer_id: int = 5
    epoch: int = -1
    partitions: set[TopicPartition] = field(default_factory=set)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    committed_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    ends: list[bool] = field(default_factory=list)
    next_codes: list[ErrorCode] = field(default_factory=list)
    is_open: bool = False
    last_end: bool | None = None
    asked: list[ApiKey] = field(default_factory=list)
    delayed: list[Any] = field(default_factory=list)
    unreachable_count: int = 0

    async def ask(self, api_key: ApiKey, message: Any, lowest: int, highest: int) -> Any:
        if self.unreachable_count:
            self.unreachable_count -= 1
            raise broker_error(ErrorCode.NETWORK_EXCEPTION, "connecting")
        self.asked.append(api_key)
        if self.next_codes:
            code = self.next_codes.pop(0)
            if code is ErrorCode.NETWORK_EXCEPTION:
                self._lose(api_key, message)
            if code is not ErrorCode.NONE:
                return self._answer(api_key, code)
        elif self.delayed and self.rng.random() < 0.3:
            self.deliver_delayed()
        elif self.rng.random() < self.fault_rate:
            code = self.rng.choice(_PASSING)
            if code is not ErrorCode.NETWORK_EXCEPTION:
                return self._answer(api_key, code)
            if self.rng.random() < 0.5:
                self._carry_out(api_key, message)
            self._lose(api_key, message)
        return self._answer(api_key, self._carry_out(api_key, message))

    def _lose(self, api_key: ApiKey, message: Any) -> NoReturn:
        if api_key is ApiKey.END_TXN:
            self.delayed.append(message)
        raise ResponseLost("lost", ErrorCode.NETWORK_EXCEPTION)

    def deliver_delayed(self) -> None:
        delayed, self.delayed = self.delayed, []
        for message in delayed:
            self._carry_out(ApiKey.END_TXN, message)

    def forget(self) -> None:
        """Part of KeyCoordinator."""

    def _carry_out(self, api_key: ApiKey, message: Any) -> ErrorCode:
        if api_key is ApiKey.INIT_PRODUCER_ID:
            if message.producer_id >= 0 and message.producer_epoch not in (self.epoch, self.epoch - 1):
                return ErrorCode.PRODUCER_FENCED
            if message.producer_id < 0 or message.producer_epoch == self.epoch:
                self.epoch += 1  # otherwise, the request repeats a bump whose response was lost
            self._forget()
            return ErrorCode.NONE
        epoch = (
            message.v3_and_below_producer_epoch if api_key is ApiKey.ADD_PARTITIONS_TO_TXN else message.producer_epoch
        )
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        if api_key is ApiKey.END_TXN:
            return self._end(bool(message.committed))
        self.last_end = None
        self.is_open = True
        if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            for topic in message.v3_and_below_topics:
                self.partitions.update(TopicPartition(topic.name, each) for each in topic.partitions)
        elif api_key is ApiKey.ADD_OFFSETS_TO_TXN:
            self.groups.add(message.group_id)
        elif api_key is ApiKey.TXN_OFFSET_COMMIT:
            assert message.group_id in self.groups, "the coordinator does not write the group's marker"
            for topic in message.topics:
                for each in topic.partitions:
                    self.offsets[TopicPartition(topic.name, each.partition_index)] = each.committed_offset
        return ErrorCode.NONE

    def _end(self, is_committed: bool) -> ErrorCode:
        if not self.is_open:
            return ErrorCode.NONE if self.last_end is is_committed else ErrorCode.INVALID_TXN_STATE
        if is_committed:
            self.committed_offsets.update(self.offsets)
        self.ends.append(is_committed)
        self._forget()
        self.last_end = is_committed
        return ErrorCode.NONE

    def _forget(self) -> None:
        self.partitions.clear()
        self.offsets.clear()
        self.groups.clear()
        self.is_open = False
        self.last_end = None

    def _answer(self, api_key: ApiKey, code: ErrorCode) -> Any:
        if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            part = SimpleNamespace(partition_error_code=code)
            return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=[part])])
        if api_key is ApiKey.TXN_OFFSET_COMMIT:
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=code)])])
        return SimpleNamespace(error_code=code, producer_id=self.producer_id, producer_epoch=self.epoch)

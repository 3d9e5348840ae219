"""Writes a leader's ISR changes to ZooKeeper, for protocols below 2.7-IV2, which lack AlterPartition.

A write succeeds only if the state znode still has the version that the leader knows. A few seconds later, a
notification reaches the controller, which then updates other brokers. The leader does not wait for this update.

Source: ZkAlterPartitionManager.scala and ReplicationUtils.scala@3.9.
"""

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.alter_partition_manager import RETRY_BACKOFF_S, Answer, Answered, IsrChange
from kafka_zk.broker.replica.isr_state import WrittenIsr
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import BadVersion, InvalidZnode, NoNode, RegistryError
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.isr import notify_isr_change
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, decode_state, encode_state, state_path

CHECK_INTERVAL_MS = 2_500
LINGER_S = 5.0
MAX_DELAY_S = 60.0

_log = Logger()


class ZkAlterPartitionManager:
    """Writes the ISR changes of this broker. Call ``propagate`` every CHECK_INTERVAL_MS."""

    def __init__(self, broker_id: int, client: RegistryClient, clock: Timers) -> None:
        self._broker_id = broker_id
        self._client = client
        self._clock = clock
        self._changed: dict[TopicPartition, None] = {}
        self._last_change_s = self._last_propagation_s = clock.seconds()
        self._is_closed = False

    def submit(self, change: IsrChange, answered: Answered) -> None:
        ensureDeferred(self._submit(change, answered))

    def close(self) -> None:
        """Stop; a write in progress gets no response."""
        self._is_closed = True

    async def _submit(self, change: IsrChange, answered: Answered) -> None:
        try:
            answer = await self._write(change)
        except Exception as error:  # the change must get a response
            if isinstance(error, (RegistryError, InvalidZnode)):
                _log.warn("the ISR of {tp} could not be written: {error!r}", tp=change.tp, error=error)
            else:
                _log.failure("the ISR of {tp} could not be written", tp=change.tp)
            await after(self._clock, RETRY_BACKOFF_S)
            answer = ErrorCode.UNKNOWN_SERVER_ERROR
        if isinstance(answer, WrittenIsr):
            self._changed[change.tp] = None
            self._last_change_s = self._clock.seconds()
        if not self._is_closed:
            answered(answer)

    async def _write(self, change: IsrChange) -> Answer:
        path = state_path(*change.tp)
        state = LeaderIsrAndControllerEpoch(
            self._broker_id, list(change.isr), change.leader_epoch, change.controller_epoch
        )
        data = encode_state(state)
        try:
            stat = await retry_until_connected(
                self._client, lambda: self._client.set(path, data, change.partition_epoch)
            )
        except BadVersion:
            return await self._found(path, change)
        except NoNode:
            return ErrorCode.INVALID_UPDATE_VERSION
        return WrittenIsr(change.leader_epoch, change.isr, stat.version)

    async def _found(self, path: str, change: IsrChange) -> Answer:
        """After BadVersion, find out whether another client wrote the state or only the response was lost."""
        try:
            data, stat = await retry_until_connected(self._client, lambda: self._client.get(path))
        except NoNode:
            return ErrorCode.INVALID_UPDATE_VERSION
        found = decode_state(*change.tp, data, stat.version)
        is_ours = (found.leader, found.leader_epoch, tuple(found.isr), found.controller_epoch) == (
            self._broker_id,
            change.leader_epoch,
            change.isr,
            change.controller_epoch,
        )
        if not is_ours:
            return ErrorCode.INVALID_UPDATE_VERSION
        return WrittenIsr(change.leader_epoch, change.isr, stat.version)

    async def propagate(self) -> None:
        """Notify the controller after LINGER_S without a change, or MAX_DELAY_S after the last notification."""
        now_s = self._clock.seconds()
        is_due = now_s - self._last_change_s > LINGER_S or now_s - self._last_propagation_s > MAX_DELAY_S
        if not self._changed or not is_due:
            return
        told, self._changed = self._changed, {}
        try:
            await notify_isr_change(self._client, told)
        except RegistryError as error:
            _log.warn("the controller could not be informed of changed ISRs: {error!r}", error=error)
            self._changed = {**told, **self._changed}
        else:
            self._last_propagation_s = now_s

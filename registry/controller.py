"""Controller elections, and writes as the controller.

``/controller`` (an ephemeral) cannot stop a paused process that still believes that it is the controller. So each
election also increments ``/controller_epoch``, in the same multi, and a controller's multis check that its own
increment was the last one.

Kafka checks with each operation; here one check may cover many (up to 512 KB). If an operation fails, the others in its
multi are written again, so that each has its own outcome.
Source: KafkaZkClient.registerControllerAndIncrementControllerEpoch in Kafka 3.9; KAFKA-6082 (fencing).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry.client.client import (
    Check,
    Create,
    Delete,
    Operation,
    RegistryClient,
    SetData,
    ZnodeStat,
    data_size,
)
from kafka_zk.registry.client.errors import (
    BadVersion,
    ControllerMoved,
    InvalidZnode,
    MultiFailed,
    NodeExists,
    NoNode,
    RegistryError,
)
from kafka_zk.registry.client.multis import in_batches
from kafka_zk.registry.client.pipeline import get_or_create, outcomes
from kafka_zk.registry.client.watches import DataWatcher
from kafka_zk.registry.znodes import controller as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH, EPOCHS, ControllerClaim

_log = Logger()

BATCH_COUNT = 1000
SINGLES_AT_ONCE = 32
"""A failed multi of at most this many operations is repeated as parallel single ones."""

_OVERHEAD_BYTES = 64  # header, lengths, ACL, version

Result = str | ZnodeStat | None


class Elected(NamedTuple):
    """``epoch_zk_version``: the fencing token for every write."""

    epoch: int
    epoch_zk_version: int


class Lost(NamedTuple):
    """Another broker, or another session of this one, was elected."""

    controller_id: int


class ControllerRegistry:
    """``/controller`` and ``/controller_epoch``, and fenced writes to any znode."""

    def __init__(
        self,
        client: RegistryClient,
        events: EventSource = SILENT,
        clock_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._client = client
        self._events = events
        self._clock_ms = clock_ms

    async def elect(self, broker_id: int, known_epoch: int = 0) -> Elected | Lost:
        """Try to be elected, with an epoch above ``known_epoch``.

        ``known_epoch``: the last epoch that this broker knows, because ``/controller_epoch`` may have been reset, and
        brokers reject older epochs. After a ConnectionLoss, call this again; it recognises its claim.
        Raises: ConnectionLoss, SessionLost, InvalidZnode.
        """
        while True:
            claim, owner = await self._claim()
            epoch, epoch_version = await self._epoch()
            if claim is not None:
                mine = claim.broker_id == broker_id and owner == self._client.session_id
                if not mine or claim.is_kraft:
                    return Lost(claim.broker_id)
                if await self._claim() != (claim, owner):
                    continue  # the epoch may be that of a later controller
                if epoch >= known_epoch:
                    return Elected(epoch, epoch_version)
            epoch = max(epoch, known_epoch if known_epoch in EPOCHS else 0) + 1
            operations: list[Operation] = [SetData(CONTROLLER_EPOCH, znodes.encode_epoch(epoch), epoch_version)]
            if claim is None:
                data = znodes.encode(ControllerClaim(broker_id, self._clock_ms()))
                operations.insert(0, Create(CONTROLLER, data, ephemeral=True))
            try:
                results = await self._client.multi(operations)
            except MultiFailed as failed:
                if isinstance(failed.cause, NodeExists | BadVersion | NoNode):
                    continue  # another broker was elected: read again
                raise failed.cause from failed
            stat = results[-1]
            assert isinstance(stat, ZnodeStat)
            return Elected(epoch, stat.version)

    async def claim(self) -> ControllerClaim | None:
        """The current controller's claim; None if there is no controller. Raises InvalidZnode."""
        return (await self._claim())[0]

    async def current(self) -> int | None:
        """The controller's broker id; None if there is no controller. Raises InvalidZnode."""
        claim = await self.claim()
        return None if claim is None else claim.broker_id

    async def resign(self, epoch_zk_version: int) -> None:
        """Delete ``/controller``, if it exists. Raises ControllerMoved if another controller was elected."""
        try:
            await self.fenced_multi(epoch_zk_version, [Delete(CONTROLLER)])
        except MultiFailed as failed:
            if not isinstance(failed.cause, NoNode):
                raise failed.cause from failed

    def watch(self, on_change: Callable[[int | None], None]) -> "ControllerWatcher":
        """Report the broker id (None: no controller) now and after every change."""
        return ControllerWatcher(self._client, on_change, self._events)

    async def fenced_multi(self, epoch_zk_version: int, operations: Sequence[Operation]) -> list[Result]:
        """Write all operations or none.

        Raises: ControllerMoved; MultiFailed with the index within ``operations``.
        """
        try:
            return (await self._client.multi(_fenced(epoch_zk_version, operations)))[1:]
        except MultiFailed as failed:
            raise _refusal(epoch_zk_version, failed) from failed

    async def fenced_writes(
        self, epoch_zk_version: int, operations: Sequence[Operation]
    ) -> list[Result | RegistryError]:
        """Write each operation independently, in order, many per multi. Each operation yields a result or
        RegistryError.

        Operations may depend on earlier ones (a parent, then its child). An operation that yields a ConnectionLoss may
        have been written. If ControllerMoved is raised, earlier operations may have been written.
        """
        settled: list[Result | RegistryError] = []
        # Sending all multis together would block the reactor.
        for batch in in_batches(operations, _size_bytes, BATCH_COUNT):
            (outcome,) = await outcomes([self._client.multi(_fenced(epoch_zk_version, batch))])
            refusal = _refusal(epoch_zk_version, outcome) if isinstance(outcome, MultiFailed) else outcome
            if isinstance(refusal, ControllerMoved):
                raise refusal
            if isinstance(refusal, MultiFailed) and len(batch) == 1:
                settled.append(refusal.cause)
            elif isinstance(refusal, MultiFailed):
                settled.extend(await self._around(epoch_zk_version, batch, refusal))
            elif isinstance(refusal, RegistryError):
                settled.extend([refusal] * len(batch))
            else:
                settled.extend(refusal[1:])
        return settled

    async def _around(
        self, epoch_zk_version: int, operations: Sequence[Operation], failed: MultiFailed
    ) -> list[Result | RegistryError]:
        """Repeat a failed multi: the operations before the failed one together, and the later ones in halves, because
        more may fail. Small groups are repeated one by one."""
        if len(operations) <= SINGLES_AT_ONCE:
            return await self._singles(epoch_zk_version, operations)
        before, after = operations[: failed.index], operations[failed.index + 1 :]
        half = len(after) // 2
        return [
            *await self.fenced_writes(epoch_zk_version, before),
            failed.cause,
            *await self.fenced_writes(epoch_zk_version, after[:half]),
            *await self.fenced_writes(epoch_zk_version, after[half:]),
        ]

    async def _singles(self, epoch_zk_version: int, operations: Sequence[Operation]) -> list[Result | RegistryError]:
        settled: list[Result | RegistryError] = []
        for outcome in await outcomes(
            self._client.multi(_fenced(epoch_zk_version, [operation])) for operation in operations
        ):
            if isinstance(outcome, MultiFailed):
                refusal = _refusal(epoch_zk_version, outcome)
                if isinstance(refusal, ControllerMoved):
                    raise refusal
                settled.append(refusal.cause)
            elif isinstance(outcome, RegistryError):
                settled.append(outcome)
            else:
                settled.append(outcome[1])
        return settled

    async def _claim(self) -> tuple[ControllerClaim | None, int]:
        """The current claim, and the session id of its znode."""
        try:
            data, stat = await self._client.get(CONTROLLER)
        except NoNode:
            return None, 0
        return znodes.decode(data), stat.ephemeral_owner

    async def _epoch(self) -> tuple[int, int]:
        """The epoch and its znode's version; creates the znode if absent."""
        data, stat = await get_or_create(self._client, CONTROLLER_EPOCH, lambda: znodes.encode_epoch(0))
        return znodes.decode_epoch(data), stat.version


class ControllerWatcher:
    def __init__(
        self, client: RegistryClient, on_change: Callable[[int | None], None], events: EventSource
    ) -> None:
        self._on_change = on_change
        self._watcher = DataWatcher(client, CONTROLLER, self._read, events)

    def close(self) -> None:
        self._watcher.close()

    def _read(self, data: bytes | None, stat: ZnodeStat | None) -> None:
        if stat is None:
            self._on_change(None)
            return
        try:
            claim = znodes.decode(data)
        except InvalidZnode as error:
            _log.warn("{path} is ignored: {error}", path=CONTROLLER, error=error)
            return
        self._on_change(claim.broker_id)


def _fenced(epoch_zk_version: int, operations: Sequence[Operation]) -> list[Operation]:
    return [Check(CONTROLLER_EPOCH, epoch_zk_version), *operations]


def _refusal(epoch_zk_version: int, failed: MultiFailed) -> ControllerMoved | MultiFailed:
    if failed.index == 0:
        return ControllerMoved(f"{CONTROLLER_EPOCH} is not at version {epoch_zk_version} any more")
    return MultiFailed(failed.index - 1, failed.cause)


def _size_bytes(operation: Operation) -> int:
    return len(operation.path) + data_size(operation) + _OVERHEAD_BYTES

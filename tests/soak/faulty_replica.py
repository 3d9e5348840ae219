"""A kafka-zk broker that lacks a safeguard of replication: `python -m tests.soak.faulty_replica PROPERTIES`.

The environment variable FAULT names it. Only the tests of the judge start such a broker.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.isr_state import Committed, Pending
from kafka_zk.broker.replica.isr_updates import IsrUpdates
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.remote_replicas import RemoteReplicas
from kafka_zk.cli.main import main
from kafka_zk.registry.controller import ControllerRegistry, Elected, Lost

VARIABLE = "FAULT"
TOO_FEW = "a high watermark over too few"
TO_WATERMARK = "truncation to the high watermark"
STALE_ISR = "a stale ISR"
UNFENCED = "an unfenced controller"

_BEHIND = 20
"""Number of records by which a follower's high watermark lags; this is allowed."""


def _watermark_over_too_few() -> None:
    """The high watermark is the leader's log end, without regard to followers."""

    def high_watermark(replicas: RemoteReplicas, local_end_offset: int, *_: int) -> int:
        return local_end_offset

    RemoteReplicas.high_watermark = high_watermark  # type: ignore[assignment,method-assign]


def _truncate_to_the_high_watermark() -> None:
    """As before KIP-101: followers do not ask a new leader where the epochs end."""
    begin = FetcherState.__init__

    def without_epochs(state: FetcherState, fetch_version: int, **options: Any) -> None:
        begin(state, fetch_version, **{**options, "asks_for_epochs": False})

    def take_leader_high_watermark(partition: Partition, offset: int) -> None:
        log = partition.log
        if log is not None and offset >= log.high_watermark + _BEHIND:
            log.update_high_watermark(offset)

    FetcherState.__init__ = without_epochs  # type: ignore[assignment,method-assign]
    FetcherState._truncates_on_fetch = property(lambda _: False)  # type: ignore[assignment,method-assign]
    Partition.take_leader_high_watermark = take_leader_high_watermark  # type: ignore[assignment,method-assign]


def _keep_a_stale_isr() -> None:
    """The leader removes a follower from its ISR, but the controller's ISR still contains it."""
    propose = IsrUpdates._propose

    def propose_expansions_only(updates: IsrUpdates, partition: Partition, pending: Pending) -> None:
        if len(pending.proposed) > len(pending.isr):
            propose(updates, partition, pending)
        elif partition.remotes is not None:
            partition.isr = list(pending.proposed)
            partition.remotes.state = Committed(pending.proposed)

    IsrUpdates._propose = propose_expansions_only  # type: ignore[assignment,method-assign]


def _give_all_controllers_one_epoch() -> None:
    """No broker can then recognize requests of a former controller."""
    elect = ControllerRegistry.elect

    async def elect_in_epoch_1(registry: ControllerRegistry, broker_id: int, known_epoch: int = 0) -> Elected | Lost:
        elected = await elect(registry, broker_id, known_epoch)
        return elected._replace(epoch=1) if isinstance(elected, Elected) else elected

    ControllerRegistry.elect = elect_in_epoch_1  # type: ignore[assignment,method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    TOO_FEW: _watermark_over_too_few,
    TO_WATERMARK: _truncate_to_the_high_watermark,
    STALE_ISR: _keep_a_stale_isr,
    UNFENCED: _give_all_controllers_one_epoch,
}

if __name__ == "__main__":
    if fault := os.environ.get(VARIABLE):
        FAULTS[fault]()
    main(["broker", *sys.argv[1:]])

"""Removes one safeguard of transactions, and plays runs until the judge notices.

``python -m tests.sim.transaction_safeguards NAME --seeds 0-9``. Exit code 0 if the judge noticed.
"""

import sys
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offsets import GroupOffsets
from kafka_zk.broker.group.transactional_offsets import Marker
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch, SendMarkers
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.sim.campaign.run import Outcome
from kafka_zk.storage.log.log import Log
from tests.sim import taken_out
from tests.sim.taken_out import TakeOut
from tests.sim.transactional import play_transactional


def stable_is_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Readers receive records of open transactions."""
    patch.setattr(Log, "last_stable_offset", property(lambda log: log.high_watermark))


def aborted_are_not_told(patch: pytest.MonkeyPatch) -> None:
    """Readers do not learn which transactions were aborted."""
    patch.setattr(Log, "aborted_transactions", lambda log, start_offset, end_offset: [])


def markers_of_all_but_one(patch: pytest.MonkeyPatch) -> None:
    """One partition counts as having its marker before the marker is sent."""
    complete = Transaction._complete

    def without_one(transaction: Transaction, now_ms: int) -> Any:
        effects = []
        for effect in complete(transaction, now_ms):
            if isinstance(effect, SendMarkers) and len(effect.tps) > 1:
                last = max(effect.tps)
                transaction.markers_written([last], now_ms)
                effect = effect._replace(tps=effect.tps - {last})
            effects.append(effect)
        return effects

    patch.setattr(Transaction, "_complete", without_one)


def commits_become_aborts(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator aborts transactions that were being committed."""

    def complete_prepared(transaction: Transaction, now_ms: int) -> Any:
        effects = []
        for effect in take_over(transaction, now_ms):
            effects.append(effect._replace(commit=False) if isinstance(effect, SendMarkers) else effect)
        return effects

    take_over = Transaction.complete_prepared
    patch.setattr(Transaction, "complete_prepared", complete_prepared)


def offsets_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """A transaction's offsets take effect when they are written, even if the transaction is aborted."""
    written = GroupOffsets.written_in_transaction

    def count(offsets: GroupOffsets, producer_id: int, those: Any, record_offset: int) -> None:
        written(offsets, producer_id, those, record_offset)
        offsets.end_transaction(producer_id, Marker(record_offset + 1, is_committed=True))

    patch.setattr(GroupOffsets, "written_in_transaction", count)


def no_producer_is_fenced(patch: pytest.MonkeyPatch) -> None:
    """The coordinator checks only producer ids, not epochs."""

    def refusal(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
        return None

    patch.setattr(Transaction, "_refusal", refusal)


def partitions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """When a producer adds partitions, the coordinator forgets those added earlier."""
    add = Transaction.add_partitions

    def forget(transaction: Transaction, reply: Any, producer: Any, tps: frozenset[TopicPartition], now_ms: int) -> Any:
        effects = add(transaction, reply, producer, tps, now_ms)
        if transaction.pending is not None:
            transaction.pending = transaction.pending._replace(tps=tps)
        return effects

    patch.setattr(Transaction, "add_partitions", forget)


SAFEGUARDS: dict[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        stable_is_the_high_watermark, aborted_are_not_told, markers_of_all_but_one, commits_become_aborts,
        offsets_count_at_once, no_producer_is_fenced, partitions_are_forgotten,
    )
}  # fmt: skip


def play_transactional_without(name: str, seed: int) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    return taken_out.play_without(SAFEGUARDS[name], play_transactional, seed)


if __name__ == "__main__":
    sys.exit(taken_out.find("tests.sim.transaction_safeguards", SAFEGUARDS, play_transactional, "0-9"))

"""Safeguards of the product that can be removed for a run, to test the judges.

``python -m tests.sim --without NAME --seeds 0-1999`` plays until a judge notices. docs/explanation/simulator.md has
the table. A safeguard of ZooKeeper groups is removed as in ``tests/rebalance/test_safeguards.py``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from kafka_zk.broker.controller.loop import Controller
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.loading import LoadedPartition
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.replica.flushes import Flushes
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.clients.consumer.consumer_coordinator import ConsumerCoordinator
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.sim.scenarios import old_rules
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_state import ProducerState, Replayed
from kafka_zk.storage.manager.log_dir import LogDir
from tests.rebalance import test_safeguards as groups

TakeOut = Callable[[Any], None]
"""Removes a safeguard with a ``pytest.MonkeyPatch``."""


def no_sync_of_files(patch: pytest.MonkeyPatch) -> None:
    """With ``flush.messages``, records that are only in the page cache are acknowledged."""
    for module in ("kafka_zk.storage.segments.log_segments", "kafka_zk.storage.manager.log_loader"):
        patch.setattr(f"{module}.sync_file", lambda descriptor: None)


def no_sync_of_directories(patch: pytest.MonkeyPatch) -> None:
    """The content of a new segment is durable, but its name is not."""
    for module in (
        "kafka_zk.storage.segments.log_segments",
        "kafka_zk.storage.manager.log_loader",
        "kafka_zk.storage.log.log",
        "kafka_zk.storage.log.local_log",
        "kafka_zk.storage.manager.log_dir",
        "kafka_zk.storage.manager.log_moves",
    ):
        patch.setattr(f"{module}.sync_path", lambda path: None)


def acknowledged_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    """The response is sent before the flush has ended."""

    async def at_once(self: Flushes, partition: Partition, log: Log) -> None:
        partition.flush_ended(self._now_ms())
        self._wake(partition.tp)

    patch.setattr(Flushes, "make_durable", at_once)


def every_stop_counts_as_clean(patch: pytest.MonkeyPatch) -> None:
    """No log is recovered after a crash."""
    patch.setattr(LogDir, "had_clean_shutdown", lambda self: True)


def no_duplicate_detection(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again is appended again."""
    patch.setattr(ProducerState, "check", lambda self, header: None)


def no_producer_replay(patch: pytest.MonkeyPatch) -> None:
    """After a crash, the broker does not know the sequences of producers."""

    def nothing(self: ProducerState, *more: Any) -> Replayed:
        return Replayed(list(self.producers.values()), {}, [])

    patch.setattr(ProducerState, "replay", nothing)


def no_second_registration(patch: pytest.MonkeyPatch) -> None:
    """A broker whose session ended does not register again."""
    patch.setattr(Broker, "_session_changed", lambda self, state: None)


def no_wait_for_the_former_session(patch: pytest.MonkeyPatch) -> None:
    """A broker gives up if its id is registered, even by its own previous session."""
    register = BrokerRegistry.register

    async def forgetful(self: BrokerRegistry, info: Any, sessions: Iterable[int] = (), **more: Any) -> Any:
        return await register(self, info, [], **more)

    patch.setattr(BrokerRegistry, "register", forgetful)


def no_election_after_a_reconnect(patch: pytest.MonkeyPatch) -> None:
    """A broker with a new session does not take part in the controller election."""

    async def nothing(self: Controller) -> None:
        return None

    patch.setattr(Controller, "session_renewed", nothing)


def no_check_of_the_generation(patch: pytest.MonkeyPatch) -> None:
    """A former member of a broker's group can still commit."""
    patch.setattr(Group, "commit_refusal", lambda self, *committer, transactional=False: ErrorCode.NONE)


def no_lease_of_a_broker_member(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka's consumer, a member of a broker group acts until it learns that it was removed."""
    patch.setattr(ConsumerCoordinator, "may_act", lambda self: True)


def no_check_of_the_generation_and_no_lease(patch: pytest.MonkeyPatch) -> None:
    """Removes both safeguards, so that a zombie may commit what it delivers."""
    no_check_of_the_generation(patch)
    no_lease_of_a_broker_member(patch)


def no_groups_loaded(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not know the committed offsets."""
    patch.setattr(LoadedPartition, "load_steps", lambda self, replicas, tp, buffer_bytes: iter(()))


SAFEGUARDS: Mapping[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        no_sync_of_files,
        no_sync_of_directories,
        acknowledged_before_the_flush,
        every_stop_counts_as_clean,
        no_duplicate_detection,
        no_producer_replay,
        old_rules.every_controller_is_obeyed,
        no_second_registration,
        no_wait_for_the_former_session,
        no_election_after_a_reconnect,
        no_check_of_the_generation,
        no_lease_of_a_broker_member,
        no_check_of_the_generation_and_no_lease,
        no_groups_loaded,
        old_rules.no_lease,
        old_rules.no_token,
        groups.no_owner_check,
        groups.no_settling,
        groups.no_owner_watch,
        old_rules.no_reread_on_reconnect,
        old_rules.release_by_version,
        old_rules.commits_at_the_cached_version,
        old_rules.deletions_end_with_their_controller,
        old_rules.a_found_start_always_counts,
        groups.no_coalescing,
        groups.no_claim_watch,
        groups.no_stall_guard,
    )
} | {"no_second_registration_of_a_member": groups.no_second_registration}

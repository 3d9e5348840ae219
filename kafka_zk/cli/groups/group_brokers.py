"""One client of brokers for all requests of a command about groups."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError, NoBrokersAvailable

if TYPE_CHECKING:
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

_TIMEOUT_MS = 30_000


class GroupBrokers:
    """Connects on the first request. ``bootstrap``: empty if there are no brokers."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin: BlockingAdmin | None = None
        self._failure: KafkaError | None = None

    @contextlib.contextmanager
    def asked(self) -> "Iterator[BlockingAdmin]":
        """Lend the admin client to the block. After a failure to reach the brokers, later calls fail immediately.

        Raises: CommandFailed if there is no broker; KafkaError.
        """
        from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

        if not self._bootstrap:
            raise CommandFailed("no broker is registered in this ZooKeeper")
        if self._failure is not None:
            raise self._failure
        if self._admin is None:
            timeouts: dict[str, Any] = {"default_api_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
            self._admin = BlockingAdmin(bootstrap_servers=self._bootstrap, **secured(), **timeouts)
        try:
            with waiting(f"the brokers at {shortened_list(self._bootstrap)}", _TIMEOUT_MS / 1000):
                yield self._admin
        except (NoBrokersAvailable, KafkaTimeoutError) as error:
            self._failure = error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._admin is not None:
            self._admin.close()


def log_ends(brokers: GroupBrokers, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end offsets of existing partitions that have a leader; a note gives the reason for missing ones."""
    from kafka_zk.clients.connection.list_offsets import LATEST

    if not tps:
        return {}
    try:
        with brokers.asked() as admin:
            listed = admin.list_offsets(dict.fromkeys(_with_leader(admin, tps), LATEST))
    except (CommandFailed, KafkaError) as error:
        note(f"Log end offsets are unknown: {error}")
        return {}
    return {tp: found.offset for tp, found in listed.items()}


def existing(admin: "BlockingAdmin", tps: list[TopicPartition]) -> list[TopicPartition]:
    """Raises KafkaError."""
    topics = admin.describe_topics({tp.topic for tp in tps}.intersection(admin.list_topics()))
    return [tp for tp in tps if tp.topic in topics and tp.partition < len(topics[tp.topic].partitions)]


def _with_leader(admin: "BlockingAdmin", tps: list[TopicPartition]) -> list[TopicPartition]:
    there = existing(admin, tps)
    described = admin.describe_topics({tp.topic for tp in there})
    led = [tp for tp in there if tp.partition in described[tp.topic].available]
    if leaderless := sorted(set(there) - set(led)):
        note(f"Log end offsets are unknown for partitions without a leader: {', '.join(map(str, leaderless))}")
    return led

"""Broker requests of one command: waits are reported, and missing topics fail immediately."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import did_you_mean, missing
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.clients.connection.errors import BrokerError, KafkaTimeoutError
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.consumer.blocking_reader import BlockingReader

HEARSAY_S = 0.5
"""Time for which a topic created in ZooKeeper may be unknown, even to the controller."""
_RETRY_S = 0.1

ANSWER_MS = 60_000
"""default.api.timeout.ms of the clients."""


@contextlib.contextmanager
def broker_admin(bootstrap: str, **options: Any) -> Iterator[BlockingAdmin]:
    """Sends only requests to brokers. Raises KafkaError."""
    limit_s = options.get("default_api_timeout_ms", ANSWER_MS) / 1000
    notice = waiting(f"the brokers at {shortened_list(bootstrap)}", limit_s)
    with notice, BlockingAdmin(bootstrap_servers=bootstrap, **secured(), **options) as admin:
        yield admin


def check_topics(admin: BlockingAdmin, names: Sequence[str]) -> None:
    """Raises CommandFailed for the first topic that no broker knows; KafkaError."""
    deadline_s = time.monotonic() + HEARSAY_S
    known = admin.list_topics()
    while not set(names) <= set(known) and time.monotonic() < deadline_s:
        time.sleep(_RETRY_S)
        known = admin.list_topics()  # asks the controller, the first to know new topics
    for name in names:
        if name not in known:
            raise CommandFailed(missing("topic", name, known))


def find_topic(reader: BlockingReader, topic: str, *, wait: bool) -> TopicMetadata:
    """The topic's metadata. ``wait``: wait until the topic exists.

    Raises: CommandFailed immediately without ``wait``; KafkaError.
    """
    servers = format_bootstrap_servers(reader.config.bootstrap_addresses)
    limit_s = reader.config.default_api_timeout_ms / 1000
    if not wait:
        try:
            with waiting(f"the brokers at {shortened_list(servers)}", limit_s):
                return reader.partitions_for(topic, 0)
        except KafkaTimeoutError:
            with broker_admin(servers) as admin:
                check_topics(admin, [topic])
    with waiting(f"topic {topic} at {shortened_list(servers)}", limit_s):
        return reader.partitions_for(topic)


def check_may_produce(servers: str, topic: str) -> None:
    """Print a note if the topic is new and the brokers create topics (auto.create.topics.enable).

    Raises: CommandFailed for a missing topic that the brokers do not create; KafkaError.
    """
    with broker_admin(servers) as admin:
        if _is_known(topic, servers) or topic in (known := admin.list_topics()):
            return
        if not _creates_topics(admin):
            raise CommandFailed(f"{missing('topic', topic, known)} (the brokers have auto.create.topics.enable=false)")
    note(f"topic {topic} is new{did_you_mean(topic, known)}")


def _is_known(topic: str, servers: str) -> bool:
    """Fetch the metadata of this topic only, because a cluster may have thousands of topics."""
    with BlockingReader(bootstrap_servers=servers, **secured()) as reader, contextlib.suppress(KafkaTimeoutError):
        return bool(reader.partitions_for(topic, 0))
    return False


def _creates_topics(admin: BlockingAdmin) -> bool:
    broker_id = min(admin.describe_cluster().nodes)
    try:
        entries = admin.describe_broker_configs(broker_id)
    except BrokerError:
        return True
    return all(entry.value != "false" for entry in entries if entry.name == "auto.create.topics.enable")

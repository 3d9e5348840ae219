"""``kafka-zk consume --group``: the output of ``consume``, as a member of a group in ZooKeeper."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.groups.group_records import FLUSH_MS, GroupOptions, write_records
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.cli.terminal.options import zookeeper_properties
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, connected
from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.recorder.timeline.trace_file import TraceWriter
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.client.session_pipe import SessionPipe
from kafka_zk.registry.topics import TopicRegistry

if TYPE_CHECKING:
    from kafka_zk.registry.client.client import RegistryClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperGroupOptions(GroupOptions):
    zookeeper: str | None
    trace: Path | None


def consume_in_group(options: ZookeeperGroupOptions, write: Callable[[ConsumerRecord], None]) -> int:
    """Consume until a limit, Ctrl-C or SIGTERM, then leave the group. Returns the number of records.

    A record counts as processed when it is written.
    Raises: CommandFailed if a topic does not exist, unless ``wait``; KafkaError, RegistryError, KeyboardInterrupt.
    """
    interrupt_at_the_end()
    given: dict[str, Any] = {
        **zookeeper_properties(),
        "group.id": options.group,
        "zookeeper.connect": options.zookeeper or DEFAULT_ZOOKEEPER,
        "auto.offset.reset": "smallest" if options.from_beginning else "largest",
        **secured(),
        **options.properties,
        "consumer.timeout.ms": FLUSH_MS,
    }
    config = ZookeeperConsumerConfig.from_properties(given)
    if options.topics and not options.wait:
        _check_topics(config, options.topics)
    with ExitStack() as cleanup:
        consumer = _make(config, options.trace, cleanup)
        consumer.subscribe(options.topics, white_list=options.white_list, black_list=options.black_list)
        limit_ms = config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms
        with waiting(f"ZooKeeper at {shortened_list(config.zookeeper_connect)}", limit_ms / 1000):
            cleanup.enter_context(consumer)
        return write_records(consumer, options, write)


def _check_topics(config: ZookeeperConsumerConfig, topics: Sequence[str]) -> None:
    with connected(config.zookeeper_connect, config.zookeeper_security) as client:
        known = run_blocking(TopicRegistry(client).names())
    for topic in topics:
        if topic not in known:
            raise CommandFailed(missing("topic", topic, known))


async def _open_client(config: ZookeeperConsumerConfig) -> KazooTwistedClient:
    from twisted.internet import reactor

    client = KazooTwistedClient(
        reactor,
        config.zookeeper_connect,
        config.zookeeper_session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms,
        security=config.zookeeper_security,
    )
    pipe = SessionPipe.inherited()
    if pipe is not None:
        pipe.follow(client)
    await client.start()
    return client


def _make(config: ZookeeperConsumerConfig, trace: Path | None, cleanup: ExitStack) -> BlockingZookeeperConsumer:
    if trace is None:
        return BlockingZookeeperConsumer(config=config, open_client=partial(_open_client, config))
    clients: list[KazooTwistedClient] = []

    async def open_client() -> "RegistryClient":
        clients.append(await _open_client(config))
        return clients[0]

    writers: list[TraceWriter] = []
    consumer = BlockingZookeeperConsumer(
        config=config, observe=lambda event: writers[0](event), open_client=open_client
    )
    writers.append(TraceWriter(trace, consumer.consumer_id, lambda: clients[0].request_count if clients else 0))
    cleanup.callback(writers[0].close)
    return consumer

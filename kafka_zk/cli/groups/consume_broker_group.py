"""``kafka-zk consume --group --bootstrap-server``: the output of ``consume``, as a member of a broker-coordinated
group.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.groups.group_records import FLUSH_MS, GroupOptions, write_records
from kafka_zk.cli.terminal.brokers import broker_admin, check_topics
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.clients.connection.config import format_bootstrap_servers
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.records import ConsumerRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerGroupOptions(GroupOptions):
    bootstrap: str


def consume_in_broker_group(options: BrokerGroupOptions, write: Callable[[ConsumerRecord], None]) -> int:
    """Consume until a limit, Ctrl-C or SIGTERM, then leave the group. Returns the number of records.

    A record counts as processed when it is written.
    Raises: CommandFailed if a topic does not exist, unless ``wait``; KafkaError, KeyboardInterrupt.
    """
    interrupt_at_the_end()
    given: dict[str, Any] = {
        "group.id": options.group,
        "bootstrap.servers": options.bootstrap,
        "auto.offset.reset": "earliest" if options.from_beginning else "latest",
        **secured(),
        **options.properties,
        "consumer.timeout.ms": FLUSH_MS,
    }
    config = ConsumerConfig.from_properties(given)
    servers = format_bootstrap_servers(config.bootstrap_addresses)
    if options.topics and not options.wait:
        with broker_admin(servers) as admin:
            check_topics(admin, options.topics)
    with ExitStack() as cleanup:
        consumer = BlockingConsumer(config=config)
        consumer.subscribe(options.topics, white_list=options.white_list, black_list=options.black_list)
        cleanup.enter_context(consumer)
        with waiting(f"the coordinator of group {options.group} at {shortened_list(servers)}", None):
            consumer.start()
        return write_records(consumer, options, write)

"""``kafka-zk migration``: examines clusters that move from ZooKeeper to KRaft."""

import click

from kafka_zk.cli.migration.check import check
from kafka_zk.cli.migration.diff import diff
from kafka_zk.cli.migration.rehearse import rehearse
from kafka_zk.cli.migration.status import status
from kafka_zk.cli.terminal.command_group import CommandGroup


@click.group("migration", cls=CommandGroup, short_help="Examine a migration from ZooKeeper to KRaft.")
def command() -> None:
    """Examine a cluster before and while it moves from ZooKeeper to KRaft: Apache Kafka 2.4 to 3.9, or kafka-zk.

    Nothing is changed: the commands read znodes, ask brokers and controllers, and read files; `rehearse` works with a
    copy.

    \b
    kafka-zk migration check --zookeeper zk:2181/kafka --bootstrap-server b1:9092
    kafka-zk migration status --zookeeper zk:2181/kafka --bootstrap-server b1:9092
    kafka-zk migration diff --zookeeper zk:2181/kafka --bootstrap-server b1:9092
    kafka-zk migration rehearse --snapshot /var/lib/zookeeper/version-2
    """


command.add_command(check)
command.add_command(rehearse)
command.add_command(status)
command.add_command(diff)

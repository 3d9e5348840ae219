"""``kafka-zk topics``: create, list, describe, delete."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.cli.terminal.command_group import CommandGroup
from kafka_zk.cli.terminal.options import COUNT, bootstrap_option, json_option, zookeeper_option
from kafka_zk.cli.terminal.output import print_json, print_table, say
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.topic_access import (
    Assignment,
    PartitionDescription,
    TopicDescription,
    TopicExists,
    WantedTopic,
    topic_access,
)
from kafka_zk.protocol.topic_names import INTERNAL_TOPICS


@click.group("topics", cls=CommandGroup, short_help="Create, list, describe and delete topics.")
def command() -> None:
    """Create, list, describe and delete topics, through a broker or (with --zookeeper) directly in ZooKeeper.

    \b
    kafka-zk topics create --topic t --partitions 4 --config retention.ms=3600000
    kafka-zk topics describe --topic t
    kafka-zk topics list --zookeeper 127.0.0.1:2181
    """


def where(function: Callable[..., Any]) -> Callable[..., Any]:
    return bootstrap_option(zookeeper_option("Ask ZooKeeper instead of a broker.")(json_option(function)))


@command.command("create")
@click.option("--topic", required=True)
@click.option("--partitions", type=COUNT, help="The broker's num.partitions by default.")
@click.option("--replication-factor", type=COUNT, help="The broker's default.replication.factor by default.")
@click.option("--replica-assignment", help="Replicas of each partition, instead of counts: 0,1,0 or 0:1,1:2.")
@click.option("--config", "configs", type=KEY_VALUE, multiple=True, help="A topic's setting, e.g. retention.ms=1000.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when the topic exists.")
@where
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    bootstrap: str,
    zookeeper: str | None,
    as_json: bool,
) -> None:
    """Create a topic."""
    if replica_assignment and (partitions or replication_factor):
        raise click.UsageError("--replica-assignment cannot be combined with --partitions and --replication-factor")
    assignment = _parse_assignment(replica_assignment) if replica_assignment else None
    with topic_access(bootstrap, zookeeper) as topics:
        created = not (if_not_exists and topic in topics.names())
        if created:
            try:
                topics.create(WantedTopic(topic, partitions, replication_factor, assignment, dict(configs)))
            except TopicExists:  # the responding broker did not know the topic yet
                if not if_not_exists:
                    raise
                created = False
    if as_json:
        print_json({"topic": topic, "created": created})
    else:
        click.echo(f"Created topic {topic}." if created else f"Topic {topic} exists.")


@command.command("list")
@click.option("--exclude-internal", is_flag=True, help="Leave out __consumer_offsets and __transaction_state.")
@where
def list_topics(exclude_internal: bool, bootstrap: str, zookeeper: str | None, as_json: bool) -> None:
    """List the names of all topics."""
    with topic_access(bootstrap, zookeeper) as topics:
        names = [name for name in topics.names() if not (exclude_internal and name in INTERNAL_TOPICS)]
    if as_json:
        print_json(names)
    else:
        for name in names:
            click.echo(name)


@command.command("describe")
@click.option("--topic", "wanted", multiple=True, help="May be repeated; all topics by default.")
@where
def describe(wanted: tuple[str, ...], bootstrap: str, zookeeper: str | None, as_json: bool) -> None:
    """Show partitions, leaders, replicas, in-sync replicas and configuration of topics.

    A pipe gets the lines of Kafka's own tool.
    """
    with topic_access(bootstrap, zookeeper) as topics:
        described = topics.describe(list(wanted) or topics.names())
    if as_json:
        print_json([{**asdict(topic), "replication_factor": topic.replication_factor} for topic in described])
    else:
        for topic in described:
            if sys.stdout.isatty():
                _show_description(topic)
            else:
                _print_description(topic)


@command.command("delete")
@click.option("--topic", "wanted", multiple=True, required=True, help="May be repeated.")
@click.option("--if-exists", is_flag=True, help="Do nothing when a topic does not exist.")
@where
def delete(wanted: tuple[str, ...], if_exists: bool, bootstrap: str, zookeeper: str | None, as_json: bool) -> None:
    """Delete topics and their data."""
    with topic_access(bootstrap, zookeeper) as topics:
        existing = set(topics.names()) if if_exists else set(wanted)
        doomed = [name for name in wanted if name in existing]
        if doomed:
            topics.delete(doomed)
    if as_json:
        print_json({"deleted": doomed})
    else:
        for name in doomed:
            click.echo(f"Topic {name} is marked for deletion.")


def _parse_assignment(text: str) -> Assignment:
    """``0:1,1:2``: commas separate partitions, colons the brokers of one partition."""
    assignment: dict[int, list[int]] = {}
    for partition, part in enumerate(text.strip().split(",")):
        for broker in (decimal_integer(each.strip(), NATURAL_INT32) for each in part.split(":")):
            if broker is None:
                raise click.UsageError(f"--replica-assignment {text!r} is not of the form 0:1,1:2")
            assignment.setdefault(partition, []).append(broker)
    return assignment


def _show_description(topic: TopicDescription) -> None:
    told_id = f", id {topic.topic_id}" if topic.topic_id else ""
    counts = f"partitions {len(topic.partitions)}, replication factor {topic.replication_factor}"
    say(f"Topic {topic.name}: {counts}{told_id}")
    for key, value in sorted((topic.configs or {}).items()):
        say(f"{key}={value}")
    is_moving = any(each.adding or each.removing for each in topic.partitions)
    columns = ("partition", "leader", "replicas", "isr", *(("adding", "removing") if is_moving else ()))
    rows = [_partition_row(each) for each in topic.partitions]
    print_table(columns, [{column: row[column] for column in columns} for row in rows])


def _partition_row(partition: PartitionDescription) -> dict[str, Any]:
    leader = partition.leader if partition.leader >= 0 else "none"
    return {**asdict(partition), "leader": leader}


def _print_description(topic: TopicDescription) -> None:
    head = [f"Topic: {topic.name}"]
    if topic.topic_id:
        head.append(f"TopicId: {topic.topic_id}")
    head += [f"PartitionCount: {len(topic.partitions)}", f"ReplicationFactor: {topic.replication_factor}"]
    if topic.configs is not None:
        head.append("Configs: " + ",".join(f"{key}={value}" for key, value in sorted(topic.configs.items())))
    click.echo("\t".join(head))
    for partition in topic.partitions:
        replicas, isr = (",".join(map(str, brokers)) for brokers in (partition.replicas, partition.isr))
        leader = partition.leader if partition.leader >= 0 else "none"
        moves = ""
        if partition.adding or partition.removing:
            adding, removing = (",".join(map(str, brokers)) for brokers in (partition.adding, partition.removing))
            moves = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"
        click.echo(
            f"\tTopic: {topic.name}\tPartition: {partition.partition}\tLeader: {leader}"
            f"\tReplicas: {replicas}\tIsr: {isr}{moves}"
        )

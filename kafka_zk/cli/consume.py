"""``kafka-zk consume``: records to stdout, of assigned partitions or as a member of a group."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.base.integers import NATURAL_INT64, decimal_integer
from kafka_zk.cli.groups.group_type import group_type_option, is_of_broker
from kafka_zk.cli.terminal import line_format
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.durations import parse_time_ms
from kafka_zk.cli.terminal.options import PARTITION, bootstrap_option, zookeeper_option
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.properties import KEY_VALUE

if TYPE_CHECKING:
    from kafka_zk.clients.consumer.records import ConsumerRecord
    from kafka_zk.clients.consumer.starts import Start

_ONLY_IN_A_GROUP = {"name": "--name", "white_list": "--whitelist", "black_list": "--blacklist", "trace": "--trace",
                    "group_type": "--type"}  # fmt: skip


@click.command("consume", short_help="Read records from partitions, or as a member of a group.")
@click.option("--topic", "topics", multiple=True, help="May be repeated with --group.")
@bootstrap_option
@click.option("--partition", "numbers", type=PARTITION, multiple=True, help="May be repeated; all by default.")
@click.option("--offset", help="Start at: earliest, latest or an offset.  [default: latest]")
@click.option("--from-beginning", is_flag=True, help="Start at the first record if no offset is committed.")
@click.option(
    "--from-timestamp", help="Start at the first record of this time: ms since the epoch, or 2026-11-21T06:00Z."
)
@click.option("--max-messages", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--timeout-ms", type=click.IntRange(1), help="Stop when no record arrives for this long.")
@click.option("--exit-at-end", is_flag=True, help="Stop at the partitions' ends as of the start.")
@click.option("--wait", is_flag=True, help="Wait for a topic that does not exist yet.")
@click.option(
    "--isolation-level",
    type=click.Choice(("read_uncommitted", "read_committed")),
    help="Whether records of open and aborted transactions are read.  [default: read_uncommitted]",
)
@click.option("--property", "properties", type=KEY_VALUE, multiple=True, help="What is printed, see below.")
@click.option(
    "--consumer-property", "consumer_properties", type=KEY_VALUE, multiple=True, help="E.g. fetch.min.bytes=1."
)
@click.option("--group", help="Join this group, whose members share the partitions, see below.")
@zookeeper_option("The group's ZooKeeper.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
@group_type_option("With --group: who coordinates it.")
@click.option("--name", help="With --group: the member's name.  [default: from host and time]")
@click.option("--whitelist", "white_list", help="With --group: topics whose whole name matches this Java regex.")
@click.option("--blacklist", "black_list", help="With --group: all topics except these.")
@click.option(
    "--trace", type=click.Path(path_type=Path), help="With --group: append its events to this file or directory."
)
@click.option("--json", "as_json", is_flag=True, help="Print each record as a JSON object on a line.")
def command(
    group: str | None,
    properties: tuple[tuple[str, str], ...],
    as_json: bool,
    isolation_level: str | None,
    **options: Any,
) -> None:
    """Print records, in order within each partition, until Ctrl-C or a limit.

    --property takes the keys of Kafka's console consumer: print.key, print.timestamp, print.offset, print.partition,
    print.headers, print.value, key.separator, line.separator, headers.separator, null.literal.

    With --group, there are two types of groups. With the option --bootstrap-server, or --type broker, a broker
    coordinates the group and keeps its offsets, and all modern clients can be members; --consumer-property takes the
    keys of Kafka's consumer (partition.assignment.strategy=range|roundrobin|cooperative-sticky, session.timeout.ms,
    group.instance.id …). Otherwise members coordinate through ZooKeeper, which has the brokers' addresses and the
    offsets; --consumer-property takes the keys of Kafka's old consumer
    (partition.assignment.strategy=range|roundrobin|sticky|cooperative|weighted, consumer.capacity for weighted,
    zookeeper.session.timeout.ms …), and `kafka-zk watch` shows what members write with --trace. The environment
    variables only give the addresses of brokers and ZooKeeper; they do not choose the type.

    Offsets are committed every auto.commit.interval.ms, when a partition moves to another member, and at the end.

    --name anna: in ZooKeeper the member is <group>_anna (Kafka's consumer.id), and anna in `kafka-zk watch`. Names are
    unique in a group: while anna is a member, a second anna is refused. At a broker the name is the client.id.

    \b
    kafka-zk consume --topic t --from-beginning --exit-at-end
    kafka-zk consume --topic t --partition 0 --offset 42 --max-messages 1 --json
    kafka-zk consume --topic t --from-timestamp 2026-11-21T06:00Z --property print.key=true
    kafka-zk consume --group g --name anna --topic t --from-beginning
    kafka-zk consume --group g --topic t --bootstrap-server 127.0.0.1:9092
    kafka-zk consume --group g --whitelist 'orders\\..*' --consumer-property partition.assignment.strategy=cooperative
    """
    writer: line_format.LineWriter = line_format.from_properties(line_format.LineWriter, dict(properties))

    def write(record: "ConsumerRecord") -> None:
        if as_json:
            line = line_format.json_line(line_format.as_document(record.topic, record.partition, record))
        else:
            line = writer.format(record.partition, record)
        sys.stdout.buffer.write(line)

    if isolation_level is not None:
        options["consumer_properties"] += (("isolation.level", isolation_level),)
    count = _of_partitions(write, **options) if group is None else _in_group(write, group, **options)
    if sys.stderr.isatty() or count == 0:
        note("1 record" if count == 1 else f"{count} records")


def _in_group(
    write: "Callable[[ConsumerRecord], None]",
    group: str,
    topics: tuple[str, ...],
    group_type: str | None,
    **options: Any,
) -> int:
    alone = {"numbers": "--partition", "offset": "--offset", "from_timestamp": "--from-timestamp"}
    for given, option in {**alone, "exit_at_end": "--exit-at-end"}.items():
        if options.pop(given):
            raise click.UsageError(f"{option} cannot be used with --group: the group's offsets say where to start")
    if sum((bool(topics), options["white_list"] is not None, options["black_list"] is not None)) != 1:
        raise click.UsageError("give one of --topic, --whitelist and --blacklist")
    in_group = _in_group_of_broker if is_of_broker(group_type) else _in_group_of_zookeeper
    return in_group(write, group=group, topics=topics, **options)


def _in_group_of_zookeeper(
    write: "Callable[[ConsumerRecord], None]",
    name: str | None,
    consumer_properties: tuple[tuple[str, str], ...],
    bootstrap: str,
    **options: Any,
) -> int:
    from kafka_zk.cli.groups.consume_group import ZookeeperGroupOptions, consume_in_group

    properties = _named(name, dict(consumer_properties))
    return consume_in_group(ZookeeperGroupOptions(properties=properties, **options), write)


def _in_group_of_broker(
    write: "Callable[[ConsumerRecord], None]",
    name: str | None,
    consumer_properties: tuple[tuple[str, str], ...],
    zookeeper: str | None,
    trace: Path | None,
    **options: Any,
) -> int:
    from kafka_zk.cli.groups.consume_broker_group import BrokerGroupOptions, consume_in_broker_group

    if trace is not None:
        raise click.UsageError("--trace is for ZooKeeper groups")
    properties = dict(consumer_properties)
    if name is not None:
        if "client.id" in properties or "client_id" in properties:
            raise click.UsageError("--name and client.id both name the member: give one of them")
        properties["client.id"] = name
    return consume_in_broker_group(BrokerGroupOptions(properties=properties, **options), write)


def _named(name: str | None, properties: dict[str, str]) -> dict[str, str]:
    if name is None:
        return properties
    if not name or "/" in name:
        raise click.UsageError(f"--name {name!r}: part of a znode path, so it must not be empty or contain '/'")
    for key in ("consumer.id", "group.instance.id"):
        if key in properties or key.replace(".", "_") in properties:
            raise click.UsageError(f"--name and {key} both name the member: give one of them")
    return {**properties, "consumer.id": name}


def _of_partitions(
    write: "Callable[[ConsumerRecord], None]",
    topics: tuple[str, ...],
    bootstrap: str,
    numbers: tuple[int, ...],
    consumer_properties: tuple[tuple[str, str], ...],
    exit_at_end: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    wait: bool,
    **others: Any,
) -> int:
    from kafka_zk.base.types import TopicPartition
    from kafka_zk.cli.reading import check_start, end_offsets, limited
    from kafka_zk.cli.terminal.brokers import find_topic
    from kafka_zk.clients.consumer.blocking_reader import BlockingReader

    for name, option in _ONLY_IN_A_GROUP.items():
        if others[name] is not None:
            raise click.UsageError(f"{option} needs --group")
    if len(topics) != 1:
        raise click.UsageError("give one --topic; several need --group")
    (topic,) = topics
    start = _start(others["offset"], others["from_beginning"], others["from_timestamp"])
    properties: dict[str, Any] = {"bootstrap.servers": bootstrap, **secured(), **dict(consumer_properties)}
    with BlockingReader(None, **properties) as reader:
        known = find_topic(reader, topic, wait=wait)
        for number in numbers:
            if number >= len(known.partitions):
                raise click.UsageError(f"--partition {number}: {topic} has partitions 0..{len(known.partitions) - 1}")
        partitions = [TopicPartition(topic, number) for number in numbers or range(len(known.partitions))]
        if isinstance(start, int):
            check_start(reader, partitions, start)
        until = end_offsets(reader, partitions) if exit_at_end else None
        reader.assign(dict.fromkeys(partitions, start))
        count = 0
        for record in limited(reader, until, max_messages, timeout_ms):
            write(record)
            count += 1
        sys.stdout.buffer.flush()
    return count


def _start(offset: str | None, from_beginning: bool, from_timestamp: str | None) -> "Start":
    if sum((offset is not None, from_beginning, from_timestamp is not None)) > 1:
        raise click.UsageError("give one of --offset, --from-beginning and --from-timestamp")
    if from_beginning:
        return "earliest"
    if from_timestamp is not None:
        from kafka_zk.clients.consumer.starts import Timestamp

        return Timestamp(parse_time_ms(from_timestamp))
    if offset is None or offset in ("earliest", "latest"):
        return offset or "latest"
    number = decimal_integer(offset, NATURAL_INT64)
    if number is None:
        raise click.UsageError(f"--offset {offset!r} is not earliest, latest or an offset")
    return number

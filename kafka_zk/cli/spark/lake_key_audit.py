"""``kafka-zk lake audit --key``: a merged table against the last events of its topic, with Spark."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.spark.sink_options import packages_option, with_packages
from kafka_zk.cli.spark.value_options import schema_text
from kafka_zk.cli.terminal.command_config import command_security, security_properties
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import print_table, say
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.embedded.spark_packages import absent_packages
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, MODES
from kafka_zk.spark_jobs.errors import WronglyAsked

if TYPE_CHECKING:
    from kafka_zk.base.types import TopicPartition
    from kafka_zk.spark_jobs.audit.findings import Finding
    from kafka_zk.spark_jobs.audit.keyed.key_report import KeyReport
    from kafka_zk.spark_jobs.audit.topic_log import TopicLog

_UTC = {"spark.sql.session.timeZone": "UTC"}
_OPTIONS = (
    click.option(
        "--key", metavar="COLUMN[,...]", help="The table is merged by this key: compare the last event of each key."
    ),
    click.option("--cdc", type=click.Choice(MODES), help=f"With --key: the kind of records.  [default: {DEBEZIUM}]"),
    click.option(
        "--schema", callback=schema_text, metavar="TEXT|@FILE",
        help="With --key: the columns to compare, and how to read their values in JSON, as for extract --cdc.",
    ),
    click.option(
        "--schema-registry", metavar="URL",
        help="With --key: keys and values are Avro, with the schemas of this registry, as http://HOST:8081.",
    ),
    click.option(
        "--group", help="With --key: the group that fills the table. Its offsets tell a lost event from an unread one."
    ),
    click.option("--master", help="With --key: Spark's master.  [default: local[*]]"),
    click.option("--conf", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable."),
    packages_option,
)  # fmt: skip


def key_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All but ``key`` are arguments of ``report_of``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def report_of(
    address: str, topic: str, key: str, log: "TopicLog", zookeeper: str | None, *, cdc: str | None, schema: str | None,
    schema_registry: str | None, group: str | None, master: str | None, conf: tuple[tuple[str, str], ...],
    packages: str | None,
) -> "KeyReport":  # fmt: skip
    """``zookeeper``: where the group's offsets are; None for the brokers. Raises CommandFailed, UsageError."""
    if told := absent_packages():
        raise CommandFailed(told)
    from kafka_zk.cli.spark.command_session import command_session
    from kafka_zk.spark_jobs.audit.keyed.key_audit import KeyRequest, audit_keys
    from kafka_zk.spark_jobs.cdc.given_types import given_types
    from kafka_zk.spark_jobs.extraction import preflight
    from kafka_zk.spark_jobs.values.packages import absent_value_packages
    from kafka_zk.spark_jobs.values.value_decoder import AVRO

    master = master or "local[*]"
    config = {**_UTC, **with_packages(dict(conf), packages)}
    if schema_registry and (told := absent_value_packages(AVRO)):
        raise CommandFailed(told)
    names = tuple(each.strip() for each in key.split(","))
    if not all(names):
        raise click.UsageError(f"--key: {key!r} must be column names, separated by commas")
    try:
        preflight.check_not_connect(master, config)
        preflight.check_master(master)
        if schema is not None:
            given_types(schema)
    except WronglyAsked as error:
        raise click.UsageError(str(error)) from error
    asked = KeyRequest(address, topic, names, cdc or DEBEZIUM, schema, security_properties(), schema_registry)
    committed = None if group is None else _committed(group, zookeeper, log.bootstrap_servers)
    with waiting(f"Spark to compare {topic} with {address}", None), command_session(
        "kafka-zk lake", master, config
    ) as spark:  # fmt: skip
        return audit_keys(spark, asked, log, committed)


def _committed(
    group: str, zookeeper: str | None, servers: str
) -> "Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]":
    """Return a function that reads the group's offsets. It raises CommandFailed if the group has no offsets."""
    security = command_security()

    def read(tps: "Collection[TopicPartition]") -> "Mapping[TopicPartition, int]":
        found = _in_zookeeper(group, zookeeper, tps) if zookeeper else _at_brokers(group, servers, security, tps)
        if all(offset < 0 for offset in found.values()):
            place = f"in the ZooKeeper {zookeeper}" if zookeeper else "at the brokers"
            raise CommandFailed(f"group {group} has no offsets of the topic {place}")
        return found

    return read


def _in_zookeeper(group: str, zookeeper: str, tps: "Collection[TopicPartition]") -> "Mapping[TopicPartition, int]":
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client
    from kafka_zk.registry.client.kazoo_blocking import run_blocking
    from kafka_zk.registry.offsets import OffsetRegistry

    with zookeeper_client(zookeeper) as client:
        stored = run_blocking(OffsetRegistry(client, group).fetch(tps))
    return {tp: each.offset for tp, each in stored.items()}


def _at_brokers(
    group: str, servers: str, security: Any, tps: "Collection[TopicPartition]"
) -> "Mapping[TopicPartition, int]":  # fmt: skip
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

    with BlockingAdmin(bootstrap_servers=servers, security=security) as admin:
        return admin.groups.stable_offsets(group, list(tps))


def show(report: "KeyReport", shown: int) -> None:
    """``shown``: the findings of each kind that are described."""
    print_table(
        ["topic", "partition", "keys", "agree", "behind", "problems", "shown", "earliest", "latest"],
        [each._asdict() for each in report.partitions],
    )
    by_kind: dict[str, list[Finding]] = {}
    for each in report.findings:
        by_kind.setdefault(each.kind.value, []).append(each)
    for kind, count in report.counts.items():
        say("")
        for each in by_kind[kind.value][:shown]:
            say(f"{kind.value}: {each.said}")
            for statement in each.repair:
                say(f"  Repair: {statement}")
        if more := count - len(by_kind[kind.value][:shown]):
            say(f"{kind.value}: {more:,} more")
    say("")
    for reason in report.not_checked[:shown]:
        say(f"not checked: {reason}")
    if not report.has_ranks:
        say("The table does not store the events of its rows: only values were compared.")
    agree, keys = (sum(each) for each in zip(*((row.agree, row.keys) for row in report.partitions), strict=True))
    problems = ", ".join(f"{count:,} {kind.value}" for kind, count in report.counts.items())
    say(f"{agree:,} of {keys:,} keys with events agree with the table ({report.format}); {problems or 'no problems'}")

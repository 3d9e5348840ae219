"""``kafka-zk lake``: verify and compact folders of extractions, audit any table.

Exit codes: 0 no faults; 1 faults or a failure; 2 wrong usage. After a failure the next run continues.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.spark.lake_audit import audit
from kafka_zk.cli.spark.sink_options import packages_option, with_packages
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import note, print_json
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.embedded.spark_packages import absent_packages
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.table_formats import TABLE_FORMATS, check_table, is_table

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.extraction.verification import Verified

PARQUET = "parquet"


@click.group("lake", short_help="Audit tables of topics; look after folders that extract has written.")
def command() -> None:
    """Audit tables of topics, whatever wrote them; verify and compact folders that kafka-zk extract has written."""


command.add_command(audit)


@command.command("verify")
@click.option("--to", "target", required=True, metavar="DIR", help="The target of the extractions.")
@click.option("--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", envvar="KAFKA_ZK_ZOOKEEPER")
@click.option("--group", help="Compare with its offsets too, and with the topics; needs --zookeeper.")
@click.option("--master", default="local[1]", show_default=True, help="Spark's master.")
@click.option("--conf", "conf", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable.")
@packages_option
@json_option
def verify(
    target: str, zookeeper: str | None, group: str | None, master: str, conf: tuple[tuple[str, str], ...],
    packages: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Check that the folders have every extracted offset once: no gap, no overlap, and every file unchanged.

    Run it while no extraction runs.

    \b
    kafka-zk lake verify --to ./lake
    kafka-zk lake verify --to s3a://bucket/lake --zookeeper h:2181 --group lake
    """
    if group is not None and not zookeeper:
        raise click.UsageError("--group needs --zookeeper")
    config = _checked(target, master, conf, packages)
    found = _verified(target, master, config, group)
    faults = [*found.faults, *(_against_cluster(found, zookeeper, group) if zookeeper and group else [])]
    if as_json:
        print_json({**found.as_document(), "faults": faults})
    else:
        note(f"{found.folders:,} folders, {found.files:,} files, {found.records:,} records")
        for fault in faults:
            note(fault)
    if faults:
        raise CommandFailed(f"{target} has {len(faults):,} faults")


@command.command("compact")
@click.option("--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", envvar="KAFKA_ZK_ZOOKEEPER", help="For folders.")
@click.option("--group", help="For folders: the group that extracts; it must not run meanwhile.")
@click.option("--to", "target", required=True, metavar="DIR", help="The target of the extractions.")
@click.option("--format", type=click.Choice((PARQUET, *TABLE_FORMATS)), default=PARQUET, show_default=True)
@click.option("--target-file-size", "mebibytes", type=click.IntRange(1), default=128, show_default=True, metavar="MIB")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--conf", "conf", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable.")
@packages_option
@json_option
def compact(
    zookeeper: str | None, group: str | None, target: str, format: str, mebibytes: int, master: str,
    conf: tuple[tuple[str, str], ...], packages: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Merge many small Parquet files into few large ones, in one folder that replaces several.

    Folders whose files are on average smaller than half of --target-file-size are merged. If the command is killed, the
    next one finishes or repeats it. Tables are compacted by their own means (Delta's OPTIMIZE, Iceberg's
    rewrite_data_files).

    \b
    kafka-zk lake compact --zookeeper 127.0.0.1:2181 --group lake --to ./lake
    kafka-zk lake compact --format iceberg --to lake.db.flights --conf ...
    """
    if not is_table(format) and not (zookeeper and group):
        raise click.UsageError("folders need --zookeeper and --group")
    config = _checked(target, master, conf, packages, format)
    from kafka_zk.cli.spark.command_session import command_session
    from kafka_zk.spark_jobs.extraction.compaction_job import compact_target
    from kafka_zk.spark_jobs.extraction.table_compaction import compact_table

    with waiting("Spark to compact", None), command_session("kafka-zk lake", master, config) as spark:
        if zookeeper and group and not is_table(format):
            done = compact_target(spark, zookeeper, group, target, mebibytes << 20)
            document, places = asdict(done), (f"{len(done.replaced):,} folders", done.folder)
        else:
            table = compact_table(spark, format, target, mebibytes << 20)
            document, places = asdict(table), (target, target)
    if as_json:
        print_json(document)
    elif document["files_before"]:
        note(
            f"merged {document['files_before']:,} files of {places[0]} into "
            f"{document['files_after']:,} of {places[1]}"
        )
    else:
        note("there is nothing to compact")


def _checked(
    target: str, master: str, conf: tuple[tuple[str, str], ...], packages: str | None, format: str = PARQUET
) -> dict[str, str]:
    if told := absent_packages():
        raise CommandFailed(told)
    from kafka_zk.spark_jobs.extraction import preflight
    from kafka_zk.spark_jobs.extraction.stores import check_store

    config = with_packages(dict(conf), packages)
    try:
        preflight.check_not_connect(master, config)
        preflight.check_master(master)
        check_table(format, target, merge_schema=False)
        check_store(target)
        preflight.check_target(target, format, config)
    except WronglyAsked as error:
        raise click.UsageError(str(error)) from error
    return config


def _verified(target: str, master: str, config: dict[str, str], group: str | None) -> "Verified":
    from kafka_zk.cli.spark.command_session import command_session
    from kafka_zk.spark_jobs.extraction import verification
    from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles

    with waiting("Spark to read the folders", None), command_session("kafka-zk lake", master, config) as spark:
        files = HadoopFiles(spark)
        qualified = files.qualified(target)
        return verification.verify(files, lambda paths: int(spark.read.parquet(*paths).count()), qualified, group)


def _against_cluster(found: "Verified", zookeeper: str, group: str) -> list[str]:
    from kafka_zk.registry.client.kazoo_blocking import run_blocking
    from kafka_zk.registry.offsets import OffsetRegistry
    from kafka_zk.spark_jobs.extraction.connections import Connections
    from kafka_zk.spark_jobs.extraction.planning import Extraction
    from kafka_zk.spark_jobs.extraction.verification import against_cluster
    from kafka_zk.spark_jobs.source.cluster_client import LATEST

    if not found.ends:
        return [f"none of the folders is of group {group}"] if found.folders else []
    topics = tuple(sorted({tp.topic for tp in found.ends}))
    asked: Any = Extraction(zookeeper=zookeeper, group=group, topics=topics, target="/")
    with Connections(asked, note) as connections:
        stored = run_blocking(OffsetRegistry(connections.zookeeper, group).fetch(found.ends))
        log_ends = connections.brokers.offsets(dict.fromkeys(found.ends, LATEST))
    return against_cluster(found, {tp: each.offset for tp, each in stored.items()}, log_ends)

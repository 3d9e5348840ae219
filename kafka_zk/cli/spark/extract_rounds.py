"""``kafka-zk extract --every``: rounds until SIGTERM, reported as lines and to Prometheus."""

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from kafka_zk.cli.terminal.output import note, print_json
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.round_metrics import RoundMetrics, outcome_of
from kafka_zk.spark_jobs.extraction.rounds import Round, Rounds


def run_rounds(
    extraction: Extraction, every_s: float, master: str | None, config: Mapping[str, str], *,
    metrics_port: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Run rounds until SIGTERM, after which the current round finishes. Raises the errors of ``Rounds.run``;
    OSError.
    """
    metrics = RoundMetrics()

    def tell(done: Round) -> None:
        metrics.update(done)
        (_print if as_json else _say)(done)

    with ExitStack() as cleanup:

        def start_spark() -> Any:
            from kafka_zk.cli.spark.command_session import command_session

            return cleanup.enter_context(command_session("kafka-zk extract", master, config))

        rounds = Rounds(extraction, start_spark, every_s, tell=tell, note=note)
        if metrics_port is not None:
            note(f"metrics at port {metrics.listen(metrics_port)}, /metrics")
        before = signal.signal(signal.SIGTERM, lambda *_: rounds.stop())
        cleanup.callback(signal.signal, signal.SIGTERM, before)
        rounds.run()
        note("stopped by SIGTERM after the round")


def _print(done: Round) -> None:
    line: dict[str, Any] = {"round": done.number, "outcome": outcome_of(done)}
    line |= {"error": done.failure} if done.report is None else done.report.as_document()
    print_json(line)


def _say(done: Round) -> None:
    if done.report is None:
        note(f"round {done.number} failed: {done.failure}")
    elif done.report.published:
        report = done.report
        undecodable = f", {report.undecodable:,} undecodable" if report.undecodable else ""
        told = f"{report.records:,} records{undecodable} in {report.seconds:.1f} s; lag {report.lag_after:,}"
        note(f"round {done.number}: {told}")

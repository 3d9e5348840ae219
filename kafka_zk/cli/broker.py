"""``kafka-zk broker``: one broker process."""

import sys
from pathlib import Path

import click

from kafka_zk.cli.output import note
from kafka_zk.cli.properties import KEY_VALUE, read_properties


@click.command("broker", short_help="Run one broker of a server.properties file.")
@click.argument("properties_file", metavar="SERVER.PROPERTIES", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--override", "overrides", type=KEY_VALUE, multiple=True, help="Set a key; may be given many times.")
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="Serve Prometheus metrics there, under /metrics.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    properties_file: Path,
    overrides: tuple[tuple[str, str], ...],
    metrics_port: int | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run one broker in the foreground until SIGINT or SIGTERM.

    The keys are those of Kafka's server.properties. An unknown key is warned about and ignored; a bad value stops the
    start and says what is allowed. Logs go to stderr.

    \b
    Example server.properties:
      broker.id=0
      listeners=PLAINTEXT://127.0.0.1:9092
      log.dirs=/var/lib/kafka-zk
      zookeeper.connect=127.0.0.1:2181
    """
    from kafka_zk.lean_imports import import_lean

    import_lean()
    from kafka_zk.config import KafkaConfig

    config, warnings = KafkaConfig.from_properties(read_properties(properties_file), dict(overrides))
    for warning in warnings:
        note(f"warning: {warning}")

    from kafka_zk import logs
    from kafka_zk.server import run_broker

    logs.configure(level=log_level, as_json=log_format == "json")
    sys.exit(run_broker(config, metrics_port))

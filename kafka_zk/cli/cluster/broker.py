"""``kafka-zk broker``: one broker process."""

import gc
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click

from kafka_zk.broker.process.log_file import LOG_FILE_BYTES, LOG_FILE_COUNT, LogFile
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.properties import KEY_VALUE, read_properties
from kafka_zk.embedded import start_gate
from kafka_zk.embedded.fault_token import FAULTS_TOKEN_VARIABLE, SHORTEST_TOKEN, is_token
from kafka_zk.network.twisted_tcp import without_pyopenssl

_LOGIN_FILE = "java.security.auth.login.config"


def jvm_login_file(kafka_opts: str) -> dict[str, str]:
    """The JAAS file that ``KAFKA_OPTS`` names, under its key of ``server.properties``; empty if it names no file."""
    option = f"-D{_LOGIN_FILE}="
    try:
        found = [word.removeprefix(option) for word in shlex.split(kafka_opts) if word.startswith(option)]
    except ValueError:  # an unbalanced quotation mark
        found = []
    return {_LOGIN_FILE: found[-1]} if found else {}


def _load() -> Callable[..., int]:
    """Load a broker's modules, which takes half a second, and return ``run_broker``."""
    gc.disable()  # imports leave no garbage; collecting would take a tenth of the time
    try:
        with without_pyopenssl():
            from kafka_zk.broker.process.server import run_broker
    finally:
        gc.enable()
    return run_broker


@click.command("broker", short_help="Run one broker from a server.properties file.")
@click.argument("properties_file", metavar="SERVER.PROPERTIES", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--override", "overrides", type=KEY_VALUE, multiple=True, help="Set a key; may be repeated.")
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="Serve Prometheus metrics on this port (/metrics).")
@click.option("--metrics-host", help="Address for the metrics; 0.0.0.0 for all.  [default: the first listener's]")
@click.option(
    "--faults-port",
    type=click.IntRange(1, 65535),
    help=f"Serve the JSON API for named faults on this port, for tests; needs a token in {FAULTS_TOKEN_VARIABLE}.",
)
@click.option("--faults-host", default="127.0.0.1", show_default=True, help="Address for the API of faults.")
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"Log to this file instead of stderr; rotated, {LOG_FILE_COUNT} files of {LOG_FILE_BYTES >> 20} MB at most.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Append the broker's events to this file, or to broker-ID.jsonl in this directory; for kafka-zk watch.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    properties_file: Path,
    overrides: tuple[tuple[str, str], ...],
    metrics_port: int | None,
    metrics_host: str | None,
    faults_port: int | None,
    faults_host: str,
    log_file: Path | None,
    log_level: str,
    trace: Path | None,
    log_format: str,
) -> None:
    """Run one broker in the foreground until SIGINT, SIGTERM or SIGHUP (a closed terminal, unless under nohup).

    The keys are those of Kafka's server.properties. Unknown keys are ignored with a warning. An invalid value is an
    error, which says what is allowed. Logs go to stderr. -Djava.security.auth.login.config in KAFKA_OPTS names a JAAS
    file, as for Kafka.

    \b
    Example server.properties:
      broker.id=0
      listeners=PLAINTEXT://127.0.0.1:9092
      log.dirs=/var/lib/kafka-zk
      zookeeper.connect=127.0.0.1:2181
    """
    if metrics_host is not None and metrics_port is None:
        raise click.UsageError("--metrics-host needs --metrics-port")
    token = os.environ.pop(FAULTS_TOKEN_VARIABLE, "")  # so that helper processes do not inherit it
    if faults_port is not None and not is_token(token):
        wanted = f"a token of {SHORTEST_TOKEN} or more characters of ASCII, without spaces, in {FAULTS_TOKEN_VARIABLE}"
        raise click.UsageError(f"--faults-port needs {wanted}")
    if start_gate.is_held():
        _load()
        start_gate.wait()
    log = LogFile(log_file) if log_file is not None else None
    from kafka_zk.broker.config.kafka_config import KafkaConfig

    properties = {**jvm_login_file(os.environ.get("KAFKA_OPTS", "")), **read_properties(properties_file)}
    config, warnings = KafkaConfig.from_properties(properties, dict(overrides))
    for warning in warnings:
        note(f"warning: {warning}")

    run_broker = _load()
    from kafka_zk.broker.process import logs
    from kafka_zk.broker.process.server import FaultsAddress

    logs.configure(level=log_level, as_json=log_format == "json", log_file=log)
    faults = None if faults_port is None else FaultsAddress(faults_host, faults_port, token)
    if trace is None:
        sys.exit(run_broker(config, metrics_port, metrics_host, faults=faults))
    from kafka_zk.recorder.timeline.trace_file import TraceWriter

    sys.exit(run_broker(config, metrics_port, metrics_host, TraceWriter(trace, f"broker-{config.broker_id}"), faults))

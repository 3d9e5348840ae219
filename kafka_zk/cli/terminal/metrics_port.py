"""``--metrics-port``: the metrics of a command that runs until it is stopped, for Prometheus."""

from typing import TYPE_CHECKING

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LISTEN_S = 10


def serve_metrics(registry: "CollectorRegistry", port: int, host: str) -> None:
    """Serve the metrics until the process ends, and say where. Raises CommandFailed."""
    from twisted.internet.error import CannotListenError

    from kafka_zk.clients.connection.reactor_thread import reactor_thread
    from kafka_zk.network import metrics_page

    thread = reactor_thread()

    async def listen() -> int:
        return metrics_page.listen(thread.reactor, registry, port, host)

    try:
        listening = thread.call(listen, timeout_s=_LISTEN_S)
    except CannotListenError as error:
        raise CommandFailed(f"port {port} of {host} cannot be used; choose another one with --metrics-port") from error
    note(f"metrics at http://{host}:{listening}/metrics")

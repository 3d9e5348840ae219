"""Ctrl-C ends the filling of a topic immediately, whatever the brokers do."""

import signal
import socket
import subprocess
import sys

import click
import confluent_kafka
import pytest

from tests.bench.spark import filling

FILL = """
from tests.bench.spark.filling import fill
try:
    fill("127.0.0.1:{port}", "t", 1000, 100, "none", 2)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_ends_it_while_a_broker_does_not_answer() -> None:
    """The result of the unwritten records is not reported, because the caller no longer waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", FILL.format(port=server.getsockname()[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                with server.accept()[0] as broker:
                    assert broker.recv(1), "the producer sent no request"
                    process.send_signal(signal.SIGINT)
                    assert process.communicate(timeout=5)[0] == "interrupted\n"
            finally:
                process.kill()


class StuckProducer:
    """Keeps its records; each flush takes its whole timeout."""

    def __init__(self, _: object) -> None:
        self.now_s = 0.0
        self.flushes: list[float] = []

    def produce(self, *_: object, **__: object) -> None: ...

    def purge(self) -> None: ...

    def flush(self, timeout_s: float) -> int:
        self.flushes.append(timeout_s)
        self.now_s += timeout_s
        return 1


def test_no_step_of_the_flush_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python sees an interrupt only between two steps. After five minutes, the flush fails."""
    producer = StuckProducer(None)
    monkeypatch.setattr(confluent_kafka, "Producer", lambda _: producer)
    with pytest.raises(click.ClickException, match="t was not written whole"):
        filling.fill("h:1", "t", 10, 100, "none", 1, clock=lambda: producer.now_s)
    assert max(producer.flushes) <= 0.5 and 300 <= producer.now_s < 302

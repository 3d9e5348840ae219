"""Measures the cost of security for a broker: records over SASL_SSL and in plaintext, handshakes, logins, memory."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext

from tests.bench import clients, measure
from tests.bench.pairs import BrokerLife, Figure, Measured
from tests.bench.security import peers
from tests.bench.security.brokers import CERTIFICATES, SecuredBroker
from tests.bench.workloads import SOURCES, WORKLOADS, Workload
from tests.peers.targets import APACHE_KAFKA

ROWS = {row.name: row for row in WORKLOADS if row.name in
        ("produce-16k", "produce-256k", "produce-1", "produce-many", "consume", "consume-many")}  # fmt: skip
OVER = {"plain": "PLAINTEXT", "secured": "SASL_SSL"}
RECORDS = 500_000
_HANDSHAKE_S = 5
_LOGIN_S = 5.0
_CONNECTIONS = 1000

FIGURES = {
    **{
        f"{name}_{over}_{what}": Figure(f"{row.title}, {listener}{title}", unit, wanted if over == "secured" else "")
        for name, row in ROWS.items()
        for over, listener in OVER.items()
        for what, title, unit, wanted in (
            ("mb_per_s", "", "MB/s", "≥ PLAINTEXT's"),
            ("cpu", ", broker CPU", "s/GB", "≤ PLAINTEXT's"),
        )
    },
    **{
        f"{kind}_{how}_{what}": Figure(f"handshakes, {title}, {how}{suffix}", unit, wanted)
        for kind, title in (("ec", "P-256"), ("rsa", "RSA-2048"))
        for how in ("new", "resumed")
        for what, suffix, unit, wanted in (("per_s", "", "a second", "≥ 1"), ("cpu_us", ", CPU", "us each", "≤ 1"))
    },
    "logins_per_s": Figure("logins by SCRAM-SHA-512", "a second", "≥ 1"),
    "logins_cpu_us": Figure("logins by SCRAM-SHA-512, CPU", "us each", "≤ 1"),
    "connection_bytes": Figure("memory of each further connection over TLS", "KB", "≤ 1", 1000),
}


class Security(BrokerLife):
    """The measurements of one broker."""

    def __init__(self, broker: SecuredBroker, scale: float, cores: str) -> None:
        super().__init__(broker.target, scale)
        self._broker = broker
        self._cores = cores
        self._records = self._count(RECORDS)
        self._open = ExitStack()  # the open connections of clients

    def prepare(self) -> None:
        """Write the topics that consumers read later."""
        for name in {row.source for row in ROWS.values() if row.source is not None}:
            source = SOURCES[name]
            self._target.create_topic(name, partitions=source.partitions)
            clients.run(source, self._target, name, self._records_of(source))

    def records(self, number: int) -> Measured:
        """Measure each row in plaintext and over SASL_SSL, one after the other."""
        measured: Measured = {}
        for name, row in ROWS.items():
            for over in OVER if number % 2 == 0 else reversed(OVER):
                for figure, value in self._row(row, number, is_secured=over == "secured").items():
                    measured[f"{name}_{over}_{figure}"] = value
        return measured

    def _row(self, row: Workload, number: int, *, is_secured: bool) -> Measured:
        topic = row.source or f"{row.name}-{is_secured}-{number}-{time.time_ns()}"
        if row.source is None:
            self._target.create_topic(topic, partitions=row.partitions)
        target = self._broker.secured() if is_secured else self._target
        wanted = self._broker.client(row) if is_secured else row
        with self._broker.java_login() if is_secured else nullcontext():
            before_s = self._cpu_s()
            outcome = clients.run(wanted, target, topic, self._records_of(row))
            cpu_s = self._cpu_s() - before_s
        if row.source is None:
            self._target.delete_topic(topic)
        payload_mb = outcome.payload_bytes / 1e6
        return {"mb_per_s": payload_mb / outcome.seconds, "cpu": cpu_s / payload_mb * 1000}

    def _records_of(self, row: Workload) -> int:
        return max(1, round(self._records * row.share / row.partitions)) * row.partitions

    def handshakes(self, number: int) -> Measured:
        measured: Measured = {}
        seconds = self._count(_HANDSHAKE_S)
        for kind in CERTIFICATES:
            for how in ("new", "resumed"):
                before_s, begun_s = self._cpu_s(), time.monotonic()
                count = peers.handshakes(
                    self._broker.ports[kind.upper()], self._broker.files / f"{kind}.pem", seconds,
                    resumed=how == "resumed",
                )  # fmt: skip
                measured[f"{kind}_{how}_per_s"] = count / (time.monotonic() - begun_s)
                measured[f"{kind}_{how}_cpu_us"] = (self._cpu_s() - before_s) / count * 1e6
        return measured

    def logins(self, number: int) -> Measured:
        seconds = max(0.5, _LOGIN_S * self._scale)
        before_s, begun_s = self._cpu_s(), time.monotonic()
        count = peers.logins(self._broker.ports["SASL"], seconds)
        return {
            "logins_per_s": count / (time.monotonic() - begun_s),
            "logins_cpu_us": (self._cpu_s() - before_s) / count * 1e6,
        }

    def connections(self, number: int) -> Measured:
        """Connections of earlier rounds stay open, because new ones would reuse the memory that closed ones freed."""
        count = self._count(_CONNECTIONS)
        port, authority = self._broker.ports["EC"], self._broker.authority
        peers.connections(self._open, port, authority, max(1, count // 10))
        before_bytes = self._needed_bytes()
        peers.connections(self._open, port, authority, count)
        return {"connection_bytes": (self._needed_bytes() - before_bytes) / count}

    def _needed_bytes(self) -> int:
        """Resident memory; for a JVM only the objects in use, because the size of its heap depends on the last garbage
        collection, not on the connections.
        """
        if self._target.name == APACHE_KAFKA:
            return measure.live_heap_bytes(self._pid)
        return self._memory_bytes()

    def close(self) -> None:
        self._open.close()

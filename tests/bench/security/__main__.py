"""`python -m tests.bench.security`: the cost of TLS and SASL for Apache Kafka 3.9.1 and kafka-zk, in alternating pairs.

Both brokers have the same certificates and the same listeners, and negotiate the same cipher suites with the same
clients. Each row of records is also measured in plaintext, and its ratio over TLS must not be worse than there.
"""

from __future__ import annotations

import resource

from confluent_kafka import KafkaException

from tests.bench.pairs import Bench, Plan, Samples
from tests.bench.partition_wire import Refused
from tests.bench.security import brokers
from tests.bench.security.life import FIGURES, Security
from tests.bench.workloads import BenchFailed
from tests.peers import apache_kafka, jars, java

PARTS = ("records", "handshakes", "logins", "connections")


def run(plan: Plan, samples: Samples) -> None:
    """Measure all parts. Raises: ProcessFailed, Refused, TimeoutError."""
    java.compiled(jars.ORACLE_VERSION)
    files = plan.folder / "files"
    brokers.make_certificates(files)
    zookeeper = apache_kafka.start_zookeeper(plan.folder / "zookeeper")
    up: dict[str, brokers.SecuredBroker] = {}
    lives: dict[str, Security] = {}
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        for name in plan.names:
            up[name] = brokers.start(name, zookeeper.connect_string, plan.folder / name, files, cores=plan.cores)
            lives[name] = Security(up[name], plan.scale, plan.cores)
        if "records" in plan.parts:
            for life in lives.values():
                life.prepare()
        for number in range(-1, plan.rounds):
            for part in PARTS:
                for name in plan.in_turn(number) if part in plan.parts else []:
                    samples.add(name, number, getattr(lives[name], part)(number))
    except (BenchFailed, KafkaException, OSError) as failure:
        raise Refused(str(failure)) from failure
    finally:
        for life in lives.values():
            life.close()
        for broker in up.values():
            broker.target.stop()
        zookeeper.stop()


BENCH = Bench(
    "security",
    "Compare what TLS and SASL cost both brokers.",
    PARTS, FIGURES, lambda _: {}, run,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.command()()

"""`python -m tests.bench.transactions`: the cost of transactions for Apache Kafka 3.9.1 and kafka-zk, in alternating
pairs.

One broker of each kind stays up, or as many as each partition has replicas; the first round of each is a warm-up. The
memory of ids is measured last.
"""

from __future__ import annotations

from tests.bench.pairs import Bench, Plan, Samples
from tests.bench.transactions.life import FIGURES, Transactions, overrides
from tests.peers import apache_kafka, targets
from tests.peers.targets import Target

PARTS = ("commits", "reads", "ids")


def run(plan: Plan, samples: Samples) -> None:
    """Measure all parts. Raises: ProcessFailed, Refused, TimeoutError."""
    zookeeper = apache_kafka.start_zookeeper(plan.folder / "zookeeper")
    up: dict[str, Target] = {}
    try:
        for name in plan.names:
            up[name] = targets.start(
                name, zookeeper.connect_string, plan.folder / name, broker_count=plan.replication_factor,
                overrides=overrides(plan.replication_factor), cores=plan.cores,
            )  # fmt: skip
        its = {name: Transactions(target, plan.scale) for name, target in up.items()}
        for name, transactions in its.items():
            samples.add(name, 0, transactions.prepare())
        for part in (part for part in PARTS if part in plan.parts):
            for number in range(0 if part == "ids" else -1, 1 if part == "ids" else plan.rounds):
                for name in plan.in_turn(number):
                    samples.add(name, number, getattr(its[name], part)(number))
    finally:
        for target in up.values():
            target.stop()
        zookeeper.stop()


BENCH = Bench(
    "transactions",
    "Compare what transactions, their readers and transactional ids cost both brokers.",
    PARTS, FIGURES, overrides, run, replicates=True,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.command()()

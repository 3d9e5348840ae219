"""`python -m tests.bench.groups`: the cost of groups for Apache Kafka 3.9.1 and kafka-zk, measured in alternating
pairs.

Joins, commits and heartbeats run on two brokers that stay up, after a warm-up round; each load has a broker of its own.
"""

from __future__ import annotations

import shutil

from tests.bench.groups.life import FIGURES, LOADS, OVERRIDES, Groups
from tests.bench.pairs import Bench, Plan, Samples
from tests.peers import apache_kafka, targets
from tests.peers.targets import Target

PARTS = ("joins", "commits", "heartbeats", "loads")


def run(plan: Plan, samples: Samples) -> None:
    """Measure all parts. Raises: ProcessFailed, Refused, TimeoutError."""
    zookeeper = apache_kafka.start_zookeeper(plan.folder / "zookeeper")
    try:
        if set(plan.parts) - {"loads"}:
            _use(plan, samples, zookeeper.connect_string)
        if "loads" in plan.parts:
            for number in range(plan.rounds):
                for name in plan.in_turn(number):
                    for key in LOADS:
                        target = _start(plan, zookeeper.connect_string, name, f"{name}-{key}-{number}")
                        samples.add(name, number, _load(plan, target, key))
    finally:
        zookeeper.stop()


def _start(plan: Plan, zookeeper: str, name: str, chroot: str) -> Target:
    return targets.start(name, zookeeper, plan.folder / chroot, overrides=OVERRIDES, cores=plan.cores, chroot=chroot)


def _use(plan: Plan, samples: Samples, zookeeper: str) -> None:
    up: dict[str, Target] = {}
    try:
        for name in plan.names:
            up[name] = _start(plan, zookeeper, name, name)
        groups = {name: Groups(target, plan.scale) for name, target in up.items()}
        for name, its in groups.items():
            samples.add(name, 0, its.prepare())
        for number in range(-1, plan.rounds):
            for part in PARTS[:-1]:
                for name in plan.in_turn(number) if part in plan.parts else []:
                    samples.add(name, number, getattr(groups[name], part)(number))
    finally:
        for target in up.values():
            target.stop()


def _load(plan: Plan, target: Target, key: str) -> dict[str, float]:
    try:
        groups = Groups(target, plan.scale)
        groups.prepare()
        return groups.loads(key, plan.cores)
    finally:
        target.stop()
        shutil.rmtree(target.log_dirs[0])


BENCH = Bench(
    "groups",
    "Compare what joins, commits, heartbeats and the load of committed offsets cost both brokers.",
    PARTS, FIGURES, lambda _: OVERRIDES, run,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.command()()

"""The operations of Kafka's command-line tools that run against both clusters: `python -m tests.peers.tool_list`.

The table counts the runs whose exit code and lines are compared between Apache Kafka 3.9.1 and kafka-zk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.peers import test_security_apis, test_tools
from tests.peers.authorization import test_quotas, test_security_tools
from tests.peers.clusters import test_reassignment_tools, test_throttled_reassignment
from tests.peers.groups import test_group_tools
from tests.peers.tool_script import Step

STEPS: Sequence[Step] = [
    *test_tools.STEPS,
    *test_group_tools.STEPS,
    *test_reassignment_tools.STEPS,
    *test_throttled_reassignment.STEPS,
    *test_security_apis.STEPS,
    *test_quotas.STEPS,
    *test_security_tools.STEPS,
]
_SCRIPTS = {
    "AclCommand": "kafka-acls",
    "ConfigCommand": "kafka-configs",
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "ConsumerPerformance": "kafka-consumer-perf-test",
    "DelegationTokenCommand": "kafka-delegation-tokens",
    "DeleteRecordsCommand": "kafka-delete-records",
    "GetOffsetShell": "kafka-get-offsets",
    "LeaderElectionCommand": "kafka-leader-election",
    "LogDirsCommand": "kafka-log-dirs",
    "ReassignPartitionsCommand": "kafka-reassign-partitions",
    "TopicCommand": "kafka-topics",
    "TransactionsCommand": "kafka-transactions",
    "VerifiableConsumer": "kafka-verifiable-consumer",
}
_VERBS = (
    "--create", "--list", "--describe", "--alter", "--delete", "--delete-offsets", "--reset-offsets", "--add",
    "--remove", "--renew", "--expire", "--generate", "--execute", "--verify", "--cancel", "list", "describe",
)  # fmt: skip


def operation(step: Step) -> str:
    """Return the verb of a run; "run" for a tool without verbs."""
    return next((each.lstrip("-") for each in _VERBS if each in step.arguments), "run")


def rows(steps: Sequence[Step]) -> list[tuple[str, str, int]]:
    """Return (script, its operations with their numbers of runs, their sum), sorted by script."""
    counts: dict[str, Counter[str]] = {}
    for step in steps:
        script = _SCRIPTS[step.main_class.rpartition(".")[2]]
        counts.setdefault(script, Counter())[operation(step)] += 1
    return [
        (script, ", ".join(f"{verb} {count}" for verb, count in found.most_common()), found.total())
        for script, found in sorted(counts.items())
    ]


def table() -> str:
    """Return the table of the README of this folder."""
    lines = ["| tool | operations and runs | runs |", "|---|---|---|"]
    lines += [f"| {script} | {operations} | {total} |" for script, operations, total in rows(STEPS)]
    return "\n".join([*lines, f"| all | | {len(STEPS)} |"])


if __name__ == "__main__":
    print(table())

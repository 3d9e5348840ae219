"""kafka-consumer-groups of Kafka 3.9.1 and 4.3.0, every verb, and the console, perf and verifiable consumers in groups.

The same commands print the same output for kafka-zk and for Apache Kafka.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest

from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.peers import jars, targets, wire_probe
from tests.peers.processes import wait_until
from tests.peers.tool_script import Said, Step, ToolRunner, said_to_each

pytestmark = pytest.mark.peers

_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_FIRST_TIMESTAMP_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PARTITIONS = 3
_OVERRIDES = {"log.retention.ms": "-1", "offsets.topic.num.partitions": "4"}
"""The records are years old; a tool waits five seconds for the first coordinator."""
_TIMES_AND_RATES = re.compile(
    r"^[-\d:, ]+?, (?P<megabytes>[\d.]+), [\d.]+, (?P<records>\d+), [\d.]+, -?\d+, -?\d+, [-\d.]+, [-\d.NaInfity]+$"
)


def _step(name: str, *arguments: str) -> Step:
    return Step(name, _GROUPS, arguments)


def _reset(name: str, *arguments: str) -> Step:
    return _step(f"reset-{name}", "--reset-offsets", "--group", "g", "--topic", "t", *arguments)


_WITHOUT_MEMBERS = [
    _step("list-empty", "--list"),
    _step("describe-nobody", "--describe", "--group", "nobody"),
    _step("members-of-nobody", "--describe", "--group", "nobody", "--members"),
    _step("state-of-nobody", "--describe", "--group", "nobody", "--state"),
    _step("delete-nobody", "--delete", "--group", "nobody"),
    _step("delete-offsets-of-nobody", "--delete-offsets", "--group", "nobody", "--topic", "t"),
    _reset("dry-run", "--to-earliest", "--dry-run"),
    _step("list-after-dry-run", "--list"),
    _reset("to-earliest", "--to-earliest", "--execute"),
    _step("list", "--list"),
    _step("describe", "--describe", "--group", "g"),
    _reset("to-offset", "--to-offset", "2", "--execute"),
    _reset("shift", "--shift-by", "1", "--execute"),
    _reset("shift-too-far", "--shift-by", "-100", "--dry-run"),
    _reset("by-duration", "--by-duration", "P1D", "--execute"),
    _reset("to-datetime", "--to-datetime", "2023-11-14T22:13:20.005", "--execute"),
    _reset("to-current", "--to-current", "--execute"),
    _reset("export", "--to-current", "--export"),
    _step("reset-one-partition", "--reset-offsets", "--group", "g", "--topic", "t:1", "--to-latest", "--execute"),
    _step("reset-from-file", "--reset-offsets", "--group", "g", "--from-file", "{folder}/offsets.csv", "--execute"),
    _step("reset-all-topics", "--reset-offsets", "--group", "g", "--all-topics", "--shift-by", "0", "--execute"),
    _step("reset-unknown-topic", "--reset-offsets", "--group", "g", "--topic", "x", "--to-earliest", "--execute"),
    _step("describe-all", "--describe", "--all-groups"),
    _step("list-states", "--list", "--state"),
    _step("list-empty-state", "--list", "--state", "empty"),
    _step("list-stable-state", "--list", "--state", "Stable"),
    _step("list-types", "--list", "--type"),
    _step("list-classic", "--list", "--type", "classic"),
    _step("list-consumer", "--list", "--type", "consumer"),
    _step("delete-offsets", "--delete-offsets", "--group", "g", "--topic", "t:0,1"),
    _step("delete-offsets-again", "--delete-offsets", "--group", "g", "--topic", "t:0"),
    _step("delete-offsets-of-unknown-topic", "--delete-offsets", "--group", "g", "--topic", "x"),
    _step("describe-what-is-left", "--describe", "--group", "g"),
    _step("state", "--describe", "--group", "g", "--state"),
]
_WITH_MEMBER = [
    _step("live-describe", "--describe", "--group", "live"),
    _step("live-members", "--describe", "--group", "live", "--members"),
    _step("live-members-verbose", "--describe", "--group", "live", "--members", "--verbose"),
    _step("live-state", "--describe", "--group", "live", "--state"),
    _step("live-list", "--list", "--state", "stable"),
    _step("live-reset", "--reset-offsets", "--group", "live", "--topic", "t", "--to-earliest", "--execute"),
    _step("live-delete", "--delete", "--group", "live"),
    _step("live-delete-offsets", "--delete-offsets", "--group", "live", "--topic", "t"),
]
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FROM_THE_BEGINNING = ("--topic", "t", "--group", "console", "--from-beginning")
_CONSUMED = [
    Step("console-consumer", _CONSOLE, (*_FROM_THE_BEGINNING, "--max-messages", "30")),
    _step("console-describe", "--describe", "--group", "console"),
    Step("console-consumer-again", _CONSOLE, (*_FROM_THE_BEGINNING, "--timeout-ms", "5000")),
    _step("console-delete", "--delete", "--group", "console"),
]
_VERIFIABLE = "org.apache.kafka.tools.VerifiableConsumer"
_PERF = "org.apache.kafka.tools.ConsumerPerformance"
_ALL = str(10 * _PARTITIONS)
_FIRST = str(4)


def _verifiable(name: str, *arguments: str, topic: str = "t", group: str = "verifiable") -> Step:
    return Step(f"verifiable-{name}", _VERIFIABLE, ("--topic", topic, "--group-id", group, *arguments))


def _perf(name: str, *arguments: str, group: str = "perf") -> Step:
    return Step(f"perf-{name}", _PERF, ("--topic", "t", "--group", group, *arguments))


def _with_strategy(name: str) -> Step:
    strategy = ("--assignment-strategy", f"org.apache.kafka.clients.consumer.{name}")
    return _verifiable(name, "--max-messages", _ALL, *strategy, group=name)


_VERIFIED = [
    _verifiable("all", "--max-messages", _ALL, "--verbose"),
    _step("verifiable-describe", "--describe", "--group", "verifiable"),
    _verifiable("first", "--max-messages", _FIRST, "--verbose", topic="one", group="in-parts"),
    _step("verifiable-first-describe", "--describe", "--group", "in-parts"),
    _verifiable("rest", "--max-messages", str(10 - int(_FIRST)), "--verbose", topic="one", group="in-parts"),
    _step("verifiable-rest-describe", "--describe", "--group", "in-parts"),
    _verifiable("auto-commit", "--max-messages", _ALL, "--enable-autocommit", group="auto"),
    _step("verifiable-auto-commit-describe", "--describe", "--group", "auto"),
    _with_strategy("RoundRobinAssignor"),
    _with_strategy("StickyAssignor"),
    _with_strategy("CooperativeStickyAssignor"),
    _verifiable("no-reset", "--max-messages", _ALL, "--reset-policy", "none", group="no-reset"),
    _verifiable("short-session", "--max-messages", _ALL, "--session-timeout", "6000", group="short-session"),
    _verifiable("session-too-short", "--max-messages", _ALL, "--session-timeout", "5000", group="too-short"),
    _verifiable("kraft-protocol", "--max-messages", _ALL, "--group-protocol", "consumer", group="kraft"),
    _verifiable("static", "--max-messages", _ALL, "--group-instance-id", "i", group="static"),
    _step("static-members", "--describe", "--group", "static", "--members", "--verbose"),
    _step("static-delete", "--delete", "--group", "static"),
    _verifiable("static-again", "--max-messages", "0", "--group-instance-id", "i", group="static"),
]
_MEASURED = [
    _perf("all", "--messages", _ALL),
    _step("perf-describe", "--describe", "--group", "perf"),
    _perf("again", "--messages", _ALL, "--timeout", "2000"),
    _perf("too-many", "--messages", str(2 * int(_ALL)), "--timeout", "2000", "--hide-header", group="too-many"),
    _step("perf-too-many-describe", "--describe", "--group", "too-many"),
    _perf("from-latest", "--messages", "1", "--from-latest", "--timeout", "2000", group="from-latest"),
    _step("perf-from-latest-describe", "--describe", "--group", "from-latest"),
    _perf("detailed", "--messages", _ALL, "--show-detailed-stats", "--reporting-interval", "60000", group="detailed"),
]
_AFTER = [
    _step("left-describe", "--describe", "--group", "live"),
    _step("left-delete", "--delete", "--group", "live", "--group", "g"),
    _step("list-at-last", "--list"),
]


STEPS = (*_WITHOUT_MEMBERS, *_WITH_MEMBER, *_CONSUMED, *_AFTER, *_VERIFIED, *_MEASURED)


def _write_records(target: targets.Target, topic: str, partitions: int) -> None:
    """Write ten records into each partition."""
    for partition in range(partitions):
        builder = RecordBatchBuilder()
        for number in range(10):
            builder.append(_FIRST_TIMESTAMP_MS + number, b"key", b"value %d" % number)
        assert wire_probe.produce(target.ports[0], topic, partition, bytes(builder.build())) == (0, 0)


def _without_times(step: Step, lines: list[str]) -> list[str]:
    """The part of a perf or verifiable consumer's output that does not depend on times."""
    if step.main_class == _PERF:
        return [_TIMES_AND_RATES.sub(r"\g<megabytes>, \g<records>", line) for line in lines]
    if step.main_class == _VERIFIABLE:
        return _in_one_poll(lines)
    return lines


def _in_one_poll(lines: list[str]) -> list[str]:
    """The output as if all records had come in one poll, because the number per poll depends on times."""
    events = [json.loads(line) for line in lines if line.startswith("{")]
    shown = [line for line in lines if not line.startswith("{")]
    read: dict[int, list[int]] = {}
    committed: dict[int, int] = {}
    for event in events:
        del event["timestamp"]
        if event["name"] == "records_consumed":
            for part in event["partitions"]:
                count, first, _ = read.get(part["partition"], [0, part["minOffset"], 0])
                read[part["partition"]] = [count + part["count"], first, part["maxOffset"]]
        elif event["name"] == "offsets_committed" and event["success"]:
            committed.update((part["partition"], part["offset"]) for part in event["offsets"])
        else:
            for part in event.get("partitions", ()):
                part.pop("timestamp", None)
            shown.append(json.dumps(event, sort_keys=True))
    return [*shown, f"read {sorted(read.items())}", f"committed {sorted(committed.items())}"]


def _member(target: targets.Target) -> confluent_kafka.Consumer:
    """The only member of its group, with all partitions and an offset for each."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap, "group.id": "live", "client.id": "reader", "log_level": 3,
            "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.subscribe(["t"])

    def has_all() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == _PARTITIONS

    wait_until(has_all, 60, "the assignment")
    offsets = [confluent_kafka.TopicPartition("t", partition, 4) for partition in range(_PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


def _perform(runner: ToolRunner, target: targets.Target, folder: Path) -> dict[str, Said]:
    said = {}

    def run(steps: list[Step]) -> None:
        for step in steps:
            arguments = [argument.replace("{folder}", str(folder)) for argument in step.arguments]
            answer = runner.run(target, step._replace(arguments=arguments))
            lines = _without_times(step, [line for line in answer.lines if not line.startswith("SLF4J")])
            said[step.name] = Said(answer.code, sorted(_UUID.sub("UUID", line) for line in lines))

    target.create_topic("t", partitions=_PARTITIONS)
    target.create_topic("one")
    _write_records(target, "t", _PARTITIONS)
    _write_records(target, "one", 1)
    run(_WITHOUT_MEMBERS)
    with closing(_member(target)):
        run(_WITH_MEMBER)
    run(_CONSUMED)
    assert sum(line.startswith("value ") for line in said["console-consumer"].lines) == 10 * _PARTITIONS
    run(_AFTER)
    run(_VERIFIED)
    run(_MEASURED)
    assert f"read [(0, [6, {_FIRST}, 9])]" in said["verifiable-rest"].lines
    return said


@pytest.fixture(scope="module", params=[jars.ORACLE_VERSION, jars.NEWEST_VERSION])
def said(
    request: pytest.FixtureRequest, peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Said]]:
    """The tool's output, by target and step."""
    version: str = request.param
    folder = tmp_path_factory.mktemp("group-tools")
    (folder / "offsets.csv").write_text("t,0,5\nt,2,6\n")
    return said_to_each(version, peer_zookeeper, folder, f"group-tools-{version}", _perform, _OVERRIDES, at_once=True)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    assert said[targets.KAFKA_ZK][step] == said[targets.APACHE_KAFKA][step]

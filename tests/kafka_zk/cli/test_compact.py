"""``kafka-zk compact``: when it ends, and what it refuses to begin."""

from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli import compact
from kafka_zk.cli.compact import Replica, Settling
from kafka_zk.cli.terminal import brokers
from kafka_zk.clients.admin import blocking_admin
from kafka_zk.clients.admin.admin import ConfigEntry
from kafka_zk.clients.connection.metadata import PartitionMetadata, TopicMetadata
from kafka_zk.protocol import uuids

ONE, OTHER = Replica(0, 1), Replica(1, 1)


def test_it_is_over_when_nothing_has_become_smaller_for_a_while() -> None:
    settling = Settling({ONE: 100, OTHER: 100}, 10, 0)
    assert not settling.seen({ONE: 100, OTHER: 100}, 9)
    assert not settling.seen({ONE: 100, OTHER: 60}, 9.5)
    assert not settling.seen({ONE: 100, OTHER: 60}, 19)
    assert not settling.seen({ONE: 90, OTHER: 60}, 19.4)
    assert settling.seen({ONE: 90, OTHER: 60}, 29.4)
    assert settling.before == {ONE: 100, OTHER: 100} and settling.sizes == {ONE: 90, OTHER: 60}


def test_what_producers_add_does_not_keep_it_waiting() -> None:
    settling = Settling({ONE: 100}, 10, 0)
    assert not settling.seen({ONE: 150}, 9)
    assert settling.seen({ONE: 200}, 10)


class FakeAdmin:
    """A cluster of one broker whose only log shrinks once the ratio is 0."""

    policy = "compact"
    enabled = "true"
    leader = 1
    ratio: ClassVar[dict[str, str]] = {}
    changes: ClassVar[list[dict[str, str | None]]] = []

    def __init__(self, **_: Any) -> None:
        self.changes.clear()

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None: ...

    def list_topics(self) -> list[str]:
        return ["t"]

    def describe_topics(self, names: list[str]) -> dict[str, TopicMetadata]:
        partition = PartitionMetadata(0, self.leader, 0, (1,), (1,), (), 0)
        return {name: TopicMetadata(name, uuids.ZERO, False, 0, (partition,), (0,)) for name in names}

    def describe_topic_configs(self, names: list[str]) -> dict[str, list[ConfigEntry]]:
        source = "DYNAMIC_TOPIC_CONFIG" if self.ratio else "DEFAULT_CONFIG"
        ratio = self.ratio.get(compact.RATIO, "0.5")
        return {
            name: [
                ConfigEntry("cleanup.policy", self.policy, "DYNAMIC_TOPIC_CONFIG", False, False, False),
                ConfigEntry(compact.RATIO, ratio, source, not self.ratio, False, False),
                ConfigEntry(compact.SEGMENT_MS, "604800000", "DEFAULT_CONFIG", True, False, False),
            ]
            for name in names
        }

    def describe_broker_configs(self, broker: int) -> list[ConfigEntry]:
        return [ConfigEntry("log.cleaner.enable", self.enabled, "STATIC_BROKER_CONFIG", False, True, False)]

    def alter_topic_config(self, name: str, changes: dict[str, str | None]) -> None:
        self.changes.append(dict(changes))

    def log_sizes(self, broker: int, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 40 if self.changes else 100)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> type[FakeAdmin]:
    class Admin(FakeAdmin):
        pass

    monkeypatch.setattr(brokers, "BlockingAdmin", Admin)  # it has its own reference to the class
    monkeypatch.setattr(blocking_admin, "BlockingAdmin", Admin)
    monkeypatch.setattr(compact, "PICKUP_S", 0.01)
    monkeypatch.setattr(compact, "DEFAULT_BACKOFF_MS", 0)
    monkeypatch.setattr(compact, "POLL_S", 0.01)
    return Admin


def run(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(compact.command, ["--topic", "t", *options])
    return done.exit_code, done.output


def test_the_settings_are_put_back(admin: type[FakeAdmin]) -> None:
    code, output = run("--json", "--roll")
    assert (code, output) == (0, '[{"partition": 0, "broker": 1, "before_bytes": 100, "after_bytes": 40}]\n')
    assert admin.changes == [
        {"min.cleanable.dirty.ratio": "0.0", "segment.ms": "1000"},
        {"min.cleanable.dirty.ratio": None, "segment.ms": None},
    ]


def test_a_setting_of_the_topic_is_put_back(admin: type[FakeAdmin], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "ratio", {compact.RATIO: "0.25"})
    assert run()[0] == 0
    assert admin.changes[-1] == {compact.RATIO: "0.25"}


def test_nothing_removed_is_told(admin: type[FakeAdmin], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "log_sizes", lambda self, broker, tps: dict.fromkeys(tps, 100))
    code, output = run()
    assert code == 0 and "Nothing was removed" in output


@pytest.mark.parametrize(
    ("attribute", "value", "options", "sentence"),
    [
        ("policy", "delete", (), "Error: topic t has cleanup.policy=delete: only compacted topics are cleaned\n"),
        ("enabled", "false", (), "Error: broker 1 cleans nothing: it has log.cleaner.enable=false\n"),
        ("leader", -1, (), "Error: partition 0 of topic t has no leader\n"),
        ("leader", 1, ("--partition", "3"), "Error: topic t has no partition 3, only 0 to 0\n"),
    ],
)
def test_what_cannot_be_cleaned_is_refused(
    admin: type[FakeAdmin],
    monkeypatch: pytest.MonkeyPatch,
    attribute: str,
    value: Any,
    options: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setattr(admin, attribute, value)
    assert run(*options) == (1, sentence)
    assert not admin.changes

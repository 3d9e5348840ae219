"""``kafka-zk topics`` with brokers whose responses differ."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_zk.cli import topics
from kafka_zk.cli.topic_access import PartitionDescription, TopicDescription, TopicExists, WantedTopic


class Late:
    """The controller has a new topic, which the responding broker does not know yet."""

    def names(self) -> list[str]:
        return []

    def create(self, wanted: WantedTopic) -> None:
        raise TopicExists(f"topic {wanted.name} already exists")


@pytest.mark.parametrize(
    ("option", "code", "output"),
    [((), 1, "Error: topic t already exists\n"), (("--if-not-exists",), 0, "Topic t exists.\n")],
)
def test_a_topic_that_the_listing_lacks_exists_all_the_same(
    option: tuple[str, ...], code: int, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def late(*_: Any) -> Iterator[Late]:
        yield Late()

    monkeypatch.setattr(topics, "topic_access", late)
    done = CliRunner().invoke(topics.command, ["create", "--topic", "t", *option])
    assert (done.exit_code, done.output) == (code, output)


def test_a_partition_that_moves_shows_what_is_added_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The format is that of kafka-topics; a replica that is being added is not among the replicas yet."""
    moving = PartitionDescription(0, 0, [2, 1, 0], [0, 1], [2], [0])
    still = PartitionDescription(1, 0, [0, 1], [0, 1])

    class Moving:
        def describe(self, names: list[str]) -> list[TopicDescription]:
            return [TopicDescription("t", None, [moving, still], {})]

    @contextlib.contextmanager
    def access(*_: Any) -> Iterator[Moving]:
        yield Moving()

    monkeypatch.setattr(topics, "topic_access", access)
    done = CliRunner().invoke(topics.command, ["describe", "--topic", "t"])
    assert done.output.splitlines() == [
        "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: ",
        "\tTopic: t\tPartition: 0\tLeader: 0\tReplicas: 2,1,0\tIsr: 0,1\tAdding Replicas: 2\tRemoving Replicas: 0",
        "\tTopic: t\tPartition: 1\tLeader: 0\tReplicas: 0,1\tIsr: 0,1",
    ]

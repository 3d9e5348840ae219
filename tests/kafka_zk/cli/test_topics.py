"""``kafka-zk topics`` against brokers that say different things."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_zk.cli import topics
from kafka_zk.cli.topic_access import TopicExists


class Late:
    """The broker that is asked has not heard of the topic that the controller has."""

    def names(self) -> list[str]:
        return []

    def create(self, name: str, *_: Any) -> None:
        raise TopicExists(f"topic {name} exists already")


@pytest.mark.parametrize(
    ("option", "code", "output"),
    [((), 1, "Error: topic t exists already\n"), (("--if-not-exists",), 0, "Topic t exists.\n")],
)
def test_a_topic_that_the_listing_lacks_exists_all_the_same(
    option: tuple[str, ...], code: int, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def late(_: str) -> Iterator[Late]:
        yield Late()

    monkeypatch.setattr(topics, "through_broker", late)
    done = CliRunner().invoke(topics.command, ["create", "--topic", "t", *option])
    assert (done.exit_code, done.output) == (code, output)

"""A topic's configuration is shown with its sources, and changed exactly as planned."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.topic_configs import TopicConfigs
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.admin.admin import ConfigEntry
from tests.kafka_zk.cli.page.pages import Access, Opened

RETENTION = ConfigEntry("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG", False, False, False)
CLEANUP = ConfigEntry("cleanup.policy", "delete", "DEFAULT_CONFIG", True, False, False)
FIXED = ConfigEntry("fixed", "1", "DEFAULT_CONFIG", True, True, False)
SECRET = ConfigEntry("password", "hunter2", "DYNAMIC_TOPIC_CONFIG", False, False, True)


class Brokers(Access):
    """Brokers with the topic t."""

    def __init__(self) -> None:
        self.entries = {each.name: each for each in (CLEANUP, FIXED, SECRET, RETENTION)}

    def describe_topic_configs(self, names: list[str]) -> dict[str, list[ConfigEntry]]:
        return {name: list(self.entries.values()) for name in names}

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            self.entries[key] = self.entries[key]._replace(value=value)


def configs(brokers: Brokers) -> TopicConfigs:
    return TopicConfigs(cast(PageConnection, Opened(brokers)))


def test_a_configuration_is_shown_with_its_sources_but_no_secret() -> None:
    told = configs(Brokers()).show({"topic": "t"})
    assert (told["topics"], told["principal"]) == (["t"], "User:broker")
    assert [(row["name"], row["value"], row["source"]) for row in told["configs"]] == [
        ("cleanup.policy", "delete", "DEFAULT_CONFIG"), ("fixed", "1", "DEFAULT_CONFIG"),
        ("password", None, "DYNAMIC_TOPIC_CONFIG"), ("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG"),
    ]  # fmt: skip
    assert configs(Brokers()).show({})["configs"] == []
    with pytest.raises(CommandFailed, match="no topic u"):
        configs(Brokers()).show({"topic": "u"})


def test_a_change_is_planned_then_made_once_and_recorded() -> None:
    brokers = Brokers()
    acts = configs(brokers)
    planned = acts.plan({"topic": "t", "key": "retention.ms", "value": "5000"})
    assert planned.event() is None and brokers.entries["retention.ms"] == RETENTION
    assert (planned.answer["current"]["value"], planned.answer["new"]) == ("1000", "5000")
    done = acts.carry_out({"plan": planned.answer["plan"]})
    assert brokers.entries["retention.ms"].value == "5000"
    assert (done.action, done.target, done.expected) == ("set-config", "topic t", "retention.ms becomes 5000")
    assert done.principal == "User:broker"
    with pytest.raises(CommandFailed, match="carried out already"):
        acts.carry_out({"plan": planned.answer["plan"]})


def test_a_reset_has_no_value_and_a_secret_is_not_recorded() -> None:
    brokers = Brokers()
    acts = configs(brokers)
    done = acts.carry_out({"plan": acts.plan({"topic": "t", "key": "retention.ms"}).answer["plan"]})
    assert brokers.entries["retention.ms"].value is None
    assert done.expected == "retention.ms becomes its default"
    planned = acts.plan({"topic": "t", "key": "password", "value": "new-secret"})
    assert "hunter2" not in str(planned.answer)
    assert acts.carry_out({"plan": planned.answer["plan"]}).expected == "password becomes [hidden]"


def test_what_has_changed_since_the_plan_stays() -> None:
    brokers = Brokers()
    acts = configs(brokers)
    plan = acts.plan({"topic": "t", "key": "retention.ms", "value": "5000"}).answer["plan"]
    brokers.alter_topic_config("t", {"retention.ms": "7"})
    with pytest.raises(CommandFailed, match="has changed since the plan"):
        acts.carry_out({"plan": plan})
    assert brokers.entries["retention.ms"].value == "7"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"topic": "u", "key": "retention.ms", "value": "1"}, "no topic u"),
        ({"topic": "t", "key": "retention.m", "value": "1"}, r"retention.m; did you mean retention.ms\?"),
        ({"topic": "t", "key": "fixed", "value": "1"}, "fixed of topic t is read-only"),
        ({"topic": "t", "key": "cleanup.policy"}, "not set for topic t: there is nothing to reset"),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_is_a_sentence(request_: dict[str, Any], reason: str) -> None:
    with pytest.raises(CommandFailed, match=reason):
        configs(Brokers()).plan(request_)

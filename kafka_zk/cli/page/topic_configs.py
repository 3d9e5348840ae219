"""The page shows and changes the configuration of topics, through the brokers: first a plan, then exactly that plan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.plans import Plans
from kafka_zk.cli.page.unclear import EXPECTED, perhaps
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import missing
from kafka_zk.recorder.web.operations import Act, Done

if TYPE_CHECKING:
    from kafka_zk.clients.admin.admin import ConfigEntry
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
    from kafka_zk.recorder.recording.documents import Document

PLAN, SET = "plan-config", "set-config"
_OF_TOPIC = "DYNAMIC_TOPIC_CONFIG"


class ConfigPlan(NamedTuple):
    """``current``: what the brokers returned for the key when the plan was made. ``new``: None resets it."""

    topic: str
    current: "ConfigEntry"
    new: str | None


class TopicConfigs:
    """All methods raise CommandFailed, KafkaError and RegistryError with the reason for a refusal."""

    def __init__(self, connection: PageConnection) -> None:
        self._connection = connection
        self._plans: Plans[ConfigPlan] = Plans()

    def acts(self) -> Mapping[str, Act]:
        return {PLAN: self.plan, SET: self.carry_out}

    def show(self, query: Mapping[str, str]) -> "Document":
        """All topics that the principal may see, and the configuration of ``topic``, if one is given."""
        topic = query.get("topic", "")
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            names = admin.list_topics()
            entries = _entries(admin, topic, names) if topic else []
            return {
                "topics": names,
                "topic": topic,
                "configs": [_row(each) for each in entries],
                **connected.told(GroupKind.BROKER),
            }

    def plan(self, request: "Document") -> Done:
        """The request has the ``topic``, the ``key`` and the new ``value``; without a value, the key is reset."""
        topic, key = str(request.get("topic", "")), str(request.get("key", ""))
        new = None if request.get("value") is None else str(request["value"])
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            entries = {each.name: each for each in _entries(admin, topic, admin.list_topics())}
            told = connected.told(GroupKind.BROKER)
        if key not in entries:
            raise CommandFailed(missing("configuration key", key, entries))
        if entries[key].is_read_only:
            raise CommandFailed(f"{key} of topic {topic} is read-only")
        if new is None and entries[key].source != _OF_TOPIC:
            raise CommandFailed(f"{key} is not set for topic {topic}: there is nothing to reset")
        plan = ConfigPlan(topic, entries[key], new)
        return Done({"plan": self._plans.add(plan), "topic": topic, "current": _row(plan.current), "new": new, **told})

    def carry_out(self, request: "Document") -> Done:
        """Set the key of the ``plan``, unless it has changed since then."""
        plan = self._plans.take(request.get("plan"))
        key = plan.current.name
        with self._connection.open(GroupKind.BROKER) as connected, connected.access.brokers.asked() as admin:
            if plan.current not in _entries(admin, plan.topic, admin.list_topics()):
                raise CommandFailed(f"{key} of topic {plan.topic} has changed since the plan: make it again")
            told = connected.told(GroupKind.BROKER)
            with perhaps(Done({}, SET, f"topic {plan.topic}", told["principal"], f"{key}: {EXPECTED}")):
                admin.alter_topic_config(plan.topic, {key: plan.new})
        value = "its default" if plan.new is None else "[hidden]" if plan.current.is_sensitive else plan.new
        return Done(told, SET, f"topic {plan.topic}", told["principal"], f"{key} becomes {value}")


def _entries(admin: "BlockingAdmin", topic: str, names: list[str]) -> "list[ConfigEntry]":
    if topic not in names:
        raise CommandFailed(missing("topic", topic, names))
    return admin.describe_topic_configs([topic])[topic]


def _row(entry: "ConfigEntry") -> "Document":
    return entry._replace(value=None)._asdict() if entry.is_sensitive else entry._asdict()

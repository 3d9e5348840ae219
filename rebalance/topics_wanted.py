"""The topics whose partitions a member must know. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_zk.rebalance.topic_filter import topic_filter
from kafka_zk.registry.znodes.consumers import ConsumerRegistration, is_znode_name


@dataclass(frozen=True, slots=True)
class TopicsWanted:
    """Topics by name, and filters as (pattern, regular expression) from registrations."""

    names: frozenset[str] = frozenset()
    filters: frozenset[tuple[str, str]] = frozenset()
    exclude_internal_topics: bool = True

    def check(self) -> None:
        """Raises InvalidTopicFilter."""
        for pattern, regex in sorted(self.filters):
            topic_filter(pattern, regex)

    def of(self, topics: Iterable[str]) -> frozenset[str]:
        """Named topics, plus those of ``topics`` that a filter matches."""
        wanted = [
            topic_filter(pattern, regex, exclude_internal_topics=self.exclude_internal_topics)
            for pattern, regex in sorted(self.filters)
        ]
        return self.names | {topic for topic in topics if any(wants(topic) for wants in wanted)}


NOTHING_WANTED = TopicsWanted()


def topics_wanted(registrations: Iterable[ConsumerRegistration], exclude_internal_topics: bool) -> TopicsWanted:
    names: set[str] = set()
    filters: set[tuple[str, str]] = set()
    for registration in registrations:
        if registration.is_wildcard:
            filters.add((registration.pattern, next(iter(registration.subscription))))
        else:
            names.update(topic for topic in registration.subscription if is_znode_name(topic))
    return TopicsWanted(frozenset(names), frozenset(filters), exclude_internal_topics)


def stream_count(registration: ConsumerRegistration, topic: str, exclude_internal_topics: bool) -> int:
    """Number of the member's streams for the topic; 0: not subscribed. Raises InvalidTopicFilter."""
    wanted = topics_wanted([registration], exclude_internal_topics)
    if topic not in wanted.of([topic]):
        return 0
    if registration.is_wildcard:
        return next(iter(registration.subscription.values()))
    return registration.subscription[topic]

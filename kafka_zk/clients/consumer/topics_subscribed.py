"""A consumer's subscription: named topics, or all that match (or do not match) a regular expression. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.clients.connection.metadata import ClusterMetadata
from kafka_zk.rebalance.topic_filter import normalized, topic_filter
from kafka_zk.registry.znodes.consumers import BLACK_LIST, STATIC, WHITE_LIST


class TopicsSubscribed(NamedTuple):
    """``names``: topics; with ``pattern`` WHITE_LIST or BLACK_LIST, one normalized regular expression."""

    names: tuple[str, ...]
    pattern: str = STATIC
    exclude_internal_topics: bool = True

    def of(self, metadata: ClusterMetadata) -> list[str]:
        """The subscribed topics, sorted; named topics need not exist."""
        if self.pattern == STATIC:
            return list(self.names)
        allowed = topic_filter(self.pattern, self.names[0], exclude_internal_topics=self.exclude_internal_topics)
        return sorted(name for name in metadata.topics if allowed(name))


def parse_subscription(topics: Iterable[str], white_list: str | None, black_list: str | None) -> tuple[list[str], str]:
    """The sorted names or the regular expression, and the pattern.

    Raises: ValueError unless exactly one argument is given; InvalidTopicFilter.
    """
    names = sorted({topics} if isinstance(topics, str) else set(topics))
    if sum((bool(names), white_list is not None, black_list is not None)) != 1:
        raise ValueError("subscribe to topics, to a white_list or to a black_list")
    if names:
        return names, STATIC
    pattern = WHITE_LIST if white_list is not None else BLACK_LIST
    regex = normalized(white_list or black_list or "")
    topic_filter(pattern, regex)  # raises for an invalid expression
    return [regex], pattern

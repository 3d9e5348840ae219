"""Recognizes topics that have no table's rows: internal topics, and those that Debezium needs for itself. Pure.

    __NAME                   internal, such as __consumer_offsets; __debezium-heartbeat.PREFIX
    PREFIX.transaction       begins and ends of transactions (provide.transaction.metadata)
    PREFIX.message           logical decoding messages of PostgreSQL
    PREFIX…debezium_signal   the signal table under the name in Debezium's documentation
    PREFIX                   MariaDB's and MySQL's schema changes (include.schema.changes)

PREFIX is recognized by its tables: a topic PREFIX.SCHEMA.TABLE exists. The topic of a table called ``message`` has the
schema in its name, so it is not taken for one of these. Source: Debezium's documentation of topic names.
"""

from collections.abc import Iterable

_INTERNAL = "__"
_HEARTBEATS = "__debezium-heartbeat."
_BY_LAST_PART = {
    "transaction": "begins and ends of Debezium's transactions",
    "message": "logical decoding messages of PostgreSQL",
}
_SIGNALS = "debezium_signal"


def prefixes(topics: Iterable[str]) -> frozenset[str]:
    """Each string that may be a connector's ``topic.prefix``, because a topic's name continues it with two more
    parts."""
    found: set[str] = set()
    for topic in topics:
        parts = topic.split(".")
        if not topic.startswith(_INTERNAL):
            found.update(".".join(parts[:count]) for count in range(1, len(parts) - 1))
    return frozenset(found)


def why_no_table(topic: str, known_prefixes: frozenset[str], *, has_events: bool) -> str | None:
    """The reason why a topic has no table's rows; None if it may have them.

    ``has_events``: the topics have change events. If not, a topic whose name is a prefix of other names is ordinary.
    """
    if topic.startswith(_HEARTBEATS):
        return "heartbeats of Debezium"
    if topic.startswith(_INTERNAL):
        return "an internal topic"
    before, _, last = topic.rpartition(".")
    if before in known_prefixes and last in _BY_LAST_PART:
        return _BY_LAST_PART[last]
    if last == _SIGNALS and before:
        return "signals to Debezium"
    if has_events and topic in known_prefixes:
        return "schema changes of Debezium"
    return None

"""A line of an Apache Kafka broker's log in the layout of Kafka's own ``log4j.properties``. Pure.

    [2026-11-30 00:21:48,029] INFO [Controller id=2] Shutting down broker 1 (kafka.controller.KafkaController)

The layout is ``[%d] %p %m (%c)%n``: a local time without zone, the level, the message, and the logger. Most messages
begin with a prefix in brackets. Source: config/log4j.properties, LogContext.java@3.9.
"""

import re
from datetime import datetime, tzinfo
from typing import NamedTuple

_LAYOUT = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3})\] ([A-Z]+) (?:\[([^\]]{1,300})\]:? ?)?(.*?)(?: \(([\w.$-]+)\))?"
)
_BROKER = re.compile(
    r"(?:(?:KafkaServer|BrokerServer|GroupCoordinator|Controller|Broker) id=|(?:controllerId|replicaId|brokerId)="
    r"|broker=|GroupCoordinator |on broker )(\d{1,9})"
)


class LogLine(NamedTuple):
    """``prefix``: without its brackets, "" if the message has no prefix. ``logger``: the class, "" if the line names no
    class."""

    time_ms: int
    level: str
    prefix: str
    message: str
    logger: str

    @property
    def broker_id(self) -> int | None:
        """The broker that wrote the line, if the prefix names it."""
        found = _BROKER.search(self.prefix)
        return int(found[1]) if found else None


def parse(line: str, zone: tzinfo | None) -> LogLine | None:
    """None for lines in another layout, as in a stack trace. ``zone``: the log's time zone; None: this machine's."""
    found = _LAYOUT.fullmatch(line.rstrip())
    if found is None:
        return None
    try:
        time_s = datetime.fromisoformat(found[1]).replace(tzinfo=zone).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return LogLine(int(time_s) * 1000 + int(found[2]), found[3], found[4] or "", found[5], found[6] or "")

"""The requests of a controller to its brokers: LeaderAndIsr, UpdateMetadata and StopReplica, counted where they arrive.

Kafka logs a line for each of them; our broker counts its requests. With KRaft, there are none: brokers fetch the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CONTROL_REQUESTS = ("LeaderAndIsr", "StopReplica", "UpdateMetadata")

_LOGGED = re.compile(
    r"Finished LeaderAndIsr request in|Handling StopReplica request|in response to UpdateMetadata request sent"
)
"""Source: ReplicaManager.scala, ZkMetadataCache.scala@3.9, which log them at INFO."""
_COUNTED = re.compile(r"^kafka_network_requestmetrics_requests_total\{([^}]*)\} (\S+)$", re.MULTILINE)


def in_log(log: str) -> int:
    """The number of control requests that a Kafka broker has executed, according to its log."""
    return len(_LOGGED.findall(log))


def in_metrics(metrics: str) -> int:
    """The number of control requests that our broker has answered since its start, according to its metrics."""
    counts = {labels: float(count) for labels, count in _COUNTED.findall(metrics)}
    return round(sum(count for labels, count in counts.items() if _request(labels) in CONTROL_REQUESTS))


def _request(labels: str) -> str:
    found = re.search(r'request="([^"]*)"', labels)
    return found[1] if found else ""


def since(now: Mapping[int, int], before: Mapping[int, int]) -> int:
    """The difference of two counts by broker id, for the brokers that lived throughout."""
    return sum(count - before[broker_id] for broker_id, count in now.items() if broker_id in before)

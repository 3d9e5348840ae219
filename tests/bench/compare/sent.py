"""What a controller has sent its brokers: LeaderAndIsr, UpdateMetadata and StopReplica, counted where they arrive.

Kafka logs a line for each of them; ours counts its requests. With KRaft nothing is sent: brokers fetch the log.
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
    """How many a broker of Kafka's says it has carried out."""
    return len(_LOGGED.findall(log))


def in_metrics(metrics: str) -> int:
    """How many ours has answered since it was started, as its metrics say."""
    counts = {labels: float(count) for labels, count in _COUNTED.findall(metrics)}
    return round(sum(count for labels, count in counts.items() if _request(labels) in CONTROL_REQUESTS))


def _request(labels: str) -> str:
    found = re.search(r'request="([^"]*)"', labels)
    return found[1] if found else ""


def since(now: Mapping[int, int], before: Mapping[int, int]) -> int:
    """What came in between, at the brokers that lived all the time; both are counts by broker id."""
    return sum(count - before[broker_id] for broker_id, count in now.items() if broker_id in before)

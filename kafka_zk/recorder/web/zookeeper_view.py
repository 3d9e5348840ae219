"""ZooKeeper's own health at one moment, for the page. Pure."""

from collections.abc import Iterable, Mapping

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.holds import ENSEMBLE, SERVER
from kafka_zk.recorder.recording.spans import Span
from kafka_zk.recorder.zookeeper_health.answers import ANSWERS
from kafka_zk.recorder.zookeeper_health.ensemble import CONNECTIONS, EPOCH, OUTSTANDING, RESPONSE, series

MOST_SERVERS = 50
NUMBERS = "zookeeper "
"""The prefix of the series with the servers' numbers."""


def zookeeper_document(spans: Iterable[Span], measured: Mapping[str, int]) -> Document | None:
    """The ensemble and its servers; None if nothing is known of them at that time.

    ``state``: "down", "serves" or "unknown" (no server that responds reveals it). ``why``: the state and its reason, ""
    if it serves. ``since_ms``: when the state began.
    """
    servers: list[Document] = []
    whole: Document | None = None
    for span in spans:
        told = {"state": span.holder or "down", "why": span.note, "since_ms": span.from_ms}
        if span.kind == ENSEMBLE:
            whole = {**told, "state": "unknown" if span.holder == ANSWERS else told["state"]}
        elif span.kind == SERVER:
            name = span.lane.rpartition(" ")[2]
            numbers = {each: measured.get(series(each, name)) for each in (OUTSTANDING, CONNECTIONS, RESPONSE, EPOCH)}
            servers.append({"name": name, **told, **numbers})
    if whole is None and not servers:
        return None
    whole = whole or {"state": "unknown", "why": "", "since_ms": servers[0]["since_ms"]}
    return {**whole, "servers": servers[:MOST_SERVERS]}

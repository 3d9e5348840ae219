"""The cluster at one moment, from its znodes. Pure.

Only facts in znodes appear. Znodes that cannot be parsed are listed.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import brokers as broker_znodes
from kafka_zk.registry.znodes import topics as topic_znodes
from kafka_zk.registry.znodes.json_codec import decode_object

MOST_PARTITIONS = 1_000
"""Maximum number of shown partitions, for each topic and for all topics that are not unfolded."""
MOST_UNASKED = 30
"""Number of partitions; larger topics are folded into counts until the user unfolds them."""
_BROKER = re.compile(r"/brokers/ids/(\d{1,9})")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d{1,9})/state")
_CONSUMER = re.compile(r"/consumers/([^/]+)/(ids|owners|offsets)(?:/(.+))?")
_ADMIN = re.compile(r"/(?:admin/(?:delete_topics/.+|reassign_partitions|preferred_replica_election)"
                    r"|isr_change_notification/.+|log_dir_event_notification/.+)")  # fmt: skip


def is_internal(topic: str) -> bool:
    return topic.startswith("__")


def is_listed(topic: Document, partition_count: int) -> bool:
    """True if a topic's partitions are shown before the user unfolds it.

    Args:
        topic: a topic in a cluster's document; it has ``partition_count`` partitions.
    """
    return partition_count <= MOST_PARTITIONS and topic["count"] <= MOST_UNASKED and not topic["internal"]


def cluster_document(znodes: Mapping[str, Znode], opened: Collection[str] = ()) -> Document:
    """``opened``: topics to show partition by partition."""
    view = _View(opened)
    for path, znode in znodes.items():
        view.see(path, znode)
    return view.document()


def series_of(cluster: Document, most_rows: int) -> Iterator[str]:
    """The names of the samples of the partitions in a cluster's document: those listed under their topics, and at most
    ``most_rows`` of each group.
    """
    for topic in cluster["topics"]:
        for each in topic["partitions"]:
            yield f"end {topic['name']}-{each['partition']}"
    for group in (*cluster["groups"], *cluster["coordinated"]):
        owned = (tp for tps in (group.get("members") or {}).values() for tp in tps) if "owners" not in group else ()
        tps = {*group.get("owners", ()), *group.get("offsets", ()), *owned}
        for tp in sorted(tps, key=_by_number)[:most_rows]:
            yield f"end {tp}"
            yield f"committed {group['name']}: {tp}"


def _by_number(tp: str) -> tuple[str, int]:
    topic, _, number = tp.rpartition("-")
    return topic, decimal_integer(number, NATURAL_INT32) or 0


class _View:
    def __init__(self, opened: Collection[str]) -> None:
        self._opened = opened
        self._brokers: dict[int, Document] = {}
        self._controller: Document = {"broker": None, "epoch": None}
        self._assigned: dict[str, topic_znodes.TopicAssignment] = {}
        self._states: dict[tuple[str, int], topic_znodes.LeaderIsrAndControllerEpoch] = {}
        self._groups: dict[str, Document] = {}
        self._pending: list[str] = []
        self._faults: list[str] = []

    def see(self, path: str, znode: Znode) -> None:
        try:
            self._see(path, znode)
        except (InvalidZnode, ValueError) as error:
            self._faults.append(str(error)[:300])

    def _see(self, path: str, znode: Znode) -> None:
        if found := _STATE.fullmatch(path):
            topic, partition = found[1], int(found[2])
            self._states[topic, partition] = topic_znodes.decode_state(topic, partition, znode.data, znode.version)
        elif found := _TOPIC.fullmatch(path):
            self._assigned[found[1]] = topic_znodes.decode_assignment(found[1], znode.data)
        elif found := _CONSUMER.fullmatch(path):
            self._see_group(found[1], found[2], found[3], znode)
        elif found := _BROKER.fullmatch(path):
            self._brokers[int(found[1])] = _broker(path, znode)
        elif path == "/controller":
            document = decode_object(path, znode.data)
            self._controller |= {"broker": document.get("brokerid"), "session": f"{znode.session:#x}"}
        elif path == "/controller_epoch":
            self._controller["epoch"] = int(znode.data or b"0")
        elif _ADMIN.fullmatch(path):
            self._pending.append(path)

    def _see_group(self, group: str, kind: str, rest: str | None, znode: Znode) -> None:
        found = self._groups.setdefault(group, {"members": {}, "owners": {}, "offsets": {}})
        if rest is None:
            return
        if kind == "ids":
            found["members"][rest] = f"{znode.session:#x}"
        elif rest.count("/") == 1:
            topic, partition = rest.split("/")
            found[kind][f"{topic}-{partition}"] = (znode.data or b"").decode(errors="replace")

    def document(self) -> Document:
        count = sum(len(each.partitions) for each in self._assigned.values())
        unasked = [name for name in sorted(self._assigned) if self._is_small(name)]
        listed = {*self._opened, *(unasked if count <= MOST_PARTITIONS else ())}
        return {
            "brokers": [{"id": number, **self._brokers[number]} for number in sorted(self._brokers)],
            "controller": self._controller,
            "partition_count": count,
            "topics": [self._topic(name, name in listed) for name in sorted(self._assigned)],
            "groups": [self._group(name) for name in sorted(self._groups)],
            "pending": sorted(self._pending),
            "faults": self._faults[:20],
        }

    def _is_small(self, name: str) -> bool:
        return len(self._assigned[name].partitions) <= MOST_UNASKED and not is_internal(name)

    def _topic(self, name: str, each_partition: bool) -> Document:
        assignment = self._assigned[name]
        partitions = [self._partition(name, number, ids) for number, ids in assignment.partitions.items()]
        leaders: dict[int, int] = {}
        for each in partitions:
            leaders[each["leader"]] = leaders.get(each["leader"], 0) + 1
        return {
            "name": name,
            "count": len(partitions),
            "leaders": leaders,
            "under_replicated": sum(len(each["isr"]) < len(each["replicas"]) for each in partitions),
            "internal": is_internal(name),
            "partitions": partitions[:MOST_PARTITIONS] if each_partition else [],
        }

    def _partition(self, topic: str, number: int, replicas: list[int]) -> Document:
        state = self._states.get((topic, number))
        assignment = self._assigned[topic]
        document: dict[str, Any] = {"partition": number, "replicas": replicas, "leader": -1, "isr": [], "epoch": None}
        if state is not None:
            document |= {"leader": state.leader, "isr": state.isr, "epoch": state.leader_epoch}
            document |= {"controller_epoch": state.controller_epoch, "version": state.zk_version}
        if number in assignment.adding or number in assignment.removing:
            document["adding"] = list(assignment.adding.get(number, ()))
            document["removing"] = list(assignment.removing.get(number, ()))
        return document

    def _group(self, name: str) -> Document:
        found = self._groups[name]
        return {
            "name": name,
            "members": [{"id": member, "session": session} for member, session in sorted(found["members"].items())],
            "owners": dict(sorted(found["owners"].items())),
            "offsets": dict(sorted(found["offsets"].items())),
        }


def _broker(path: str, znode: Znode) -> Document:
    number = int(path.rpartition("/")[2])
    registration = broker_znodes.decode(number, znode.data)
    endpoints = [f"{each.host}:{each.port}" for each in registration.endpoints]
    return {"endpoints": endpoints, "session": f"{znode.session:#x}", "epoch": znode.czxid}

"""An extraction's ranges, target and state, in a znode that survives crashes.

    /consumers/<group>/kafka-zk/extraction
    {"version":1,"state":"planned","ranges":{"flights":{"0":["0","42110"]}},"target":"file:/data/flights",
     "name":"range=flights@0-42110-5d41402a","staging":"_kafka_zk_staging/…","format":"parquet","timestamp":"1795…",
     "writer":"9f3c…","sequence":"17","keyFormat":"string"}

Longs are strings, as everywhere in this project's znodes. The name depends only on the ranges, so ranges that are
repeated after a crash have the same name, and different ranges have different names. ``writer`` (created with the
group's first manifest) and ``sequence`` (the plan's number) identify a table's commits; ranges that are repeated after
a crash keep both. ``keyFormat`` is the format in which the group's keys are decoded; empty if keys were never decoded.
"""

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka_zk.base.integers import INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import consumers, json_codec
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

STAGING_FOLDER = "_kafka_zk_staging"  # Spark ignores names with a leading underscore

APPLICATION_PREFIX = "kafka-zk-"
"""Prefix of the names of Delta's application transactions; the writer's name follows."""


class State(enum.StrEnum):
    PLANNED = "planned"  # the ranges may be extracted again or dropped, unless a table has already committed them
    COMMITTED = "committed"  # the offsets have moved: the staging folder must be published
    PUBLISHED = "published"  # done
    DROPPED = "dropped"  # the attempt is forgotten: another client moved the offsets, or the target changed


@dataclass(frozen=True, slots=True)
class Manifest:
    """The plan of an extraction, and how far it has come. ``name``: see ``range_name``. ``timestamp_ms``: time of the
    plan, by the run's own clock."""

    state: State
    ranges: tuple[OffsetRange, ...]
    target: str
    name: str
    staging: str  # relative to the target
    format: str
    timestamp_ms: int
    writer: str = ""
    sequence: int = 0
    key_format: str = ""

    @classmethod
    def of_staging(cls, target: str, name: str, staging: str, format: str) -> "Manifest":
        """The manifest of a staging folder, without the ranges, which the folder's inventory contains."""
        return cls(State.COMMITTED, (), target, name, staging, format, 0)

    @property
    def attempt(self) -> str:
        return self.staging.rpartition("-")[2]

    @property
    def unfinished(self) -> bool:
        """True if the next run must finish or drop the attempt."""
        return self.state in (State.PLANNED, State.COMMITTED)

    def to(self, state: State) -> "Manifest":
        return replace(self, state=state)


def planned(
    ranges: Sequence[OffsetRange], target: str, format: str, attempt: str, now_ms: int,
    writer: str = "", sequence: int = 0, key_format: str = "",
) -> Manifest:  # fmt: skip
    """``attempt``: makes the staging folder unique, so that a leftover task of a killed run never writes to the next
    run's folder.
    """
    name = range_name(ranges)
    staging = f"{STAGING_FOLDER}/{name}-{attempt}"
    return Manifest(State.PLANNED, tuple(ranges), target, name, staging, format, now_ms, writer, sequence, key_format)


def range_name(ranges: Sequence[OffsetRange]) -> str:
    """``range=<topics>@<sum of first offsets>-<sum of ends>-<digest>``: sorts by progress.

    The form key=value lets Spark read the whole target with ``range`` as a column.
    """
    topics = sorted({each.topic for each in ranges})
    start, end = sum(each.from_offset for each in ranges), sum(each.until_offset for each in ranges)
    exact = ";".join(f"{each.topic}/{each.partition}:{each.from_offset}-{each.until_offset}" for each in sorted(ranges))
    digest = hashlib.sha256(exact.encode()).hexdigest()[:8]
    told = topics[0] if len(topics) == 1 else f"{len(topics)}-topics"
    return f"range={told}@{start:012d}-{end:012d}-{digest}"


def path(group: str) -> str:
    return f"{consumers.group_path(group)}/kafka-zk/extraction"


def encode(manifest: Manifest) -> bytes:
    ranges: dict[str, dict[str, list[str]]] = {}
    for each in manifest.ranges:
        bounds = [str(each.from_offset), str(each.until_offset)]
        ranges.setdefault(each.topic, {})[str(each.partition)] = bounds
    return json_codec.encode(
        {
            "version": 1,
            "state": manifest.state.value,
            "ranges": ranges,
            "target": manifest.target,
            "name": manifest.name,
            "staging": manifest.staging,
            "format": manifest.format,
            "timestamp": str(manifest.timestamp_ms),
            "writer": manifest.writer,
            "sequence": str(manifest.sequence),
            "keyFormat": manifest.key_format,
        }
    )


def decode(where: str, data: bytes | None) -> Manifest:
    """Raises InvalidZnode."""
    document = json_codec.decode_object(where, data)
    try:
        ranges = tuple(
            OffsetRange(topic, int(partition), int(start), int(end))
            for topic, partitions in sorted(document["ranges"].items())
            for partition, (start, end) in sorted(partitions.items(), key=lambda item: int(item[0]))
        )
        state = State(document["state"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidZnode(f"{where}: not a manifest: {error}") from error
    return Manifest(
        state,
        ranges,
        target=json_codec.text(where, document, "target"),
        name=json_codec.text(where, document, "name"),
        staging=json_codec.text(where, document, "staging"),
        format=json_codec.text(where, document, "format"),
        timestamp_ms=json_codec.integer(where, document, "timestamp", within=INT64),
        writer=json_codec.text(where, document, "writer", ""),  # older manifests lack both
        sequence=json_codec.integer(where, {"sequence": "0", **document}, "sequence", within=INT64),
        key_format=json_codec.text(where, document, "keyFormat", ""),
    )

"""``kafka-zk tier check`` against our brokers, with the objects of Aiven's plugin in a folder."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.protocol import messages
from kafka_zk.protocol.message import class_of
from kafka_zk.protocol.schema_writer import struct_writer
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.uuid_text import id_text
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.processes import wait_for

pytestmark = pytest.mark.integration

METADATA_PARTITIONS = 3
SEGMENT_ID = UUID(int=77)
STARTED, FINISHED = 0, 1


def records(topic: str, topic_id: UUID) -> list[bytes]:
    """The records of a copied segment of offsets 0 to 9: the start and the end of the copy."""
    segment, update = (
        class_of(messages, f"RemoteLogSegmentMetadata{kind}").table for kind in ("Record", "UpdateRecord")
    )
    made = []
    for api_key, table in enumerate((segment, update)):
        id_class = table.message_class.RemoteLogSegmentIdEntry
        tp = id_class.TopicIdPartitionEntry(name=topic, id=topic_id, partition=0)
        values: dict[str, Any] = {
            "remote_log_segment_id": id_class(topic_id_partition=tp, id=SEGMENT_ID),
            "event_timestamp_ms": round(time.time() * 1000),
            "remote_log_segment_state": (STARTED, FINISHED)[api_key],
        }
        if table is segment:
            epoch = table.message_class.SegmentLeaderEpochEntry(leader_epoch=0, offset=0)
            values |= {"end_offset": 9, "segment_leader_epochs": [epoch], "segment_size_in_bytes": 250}
        out = bytearray((1, api_key, 0))
        struct_writer(table, 0, True)(table.message_class(**values), out)
        made.append(bytes(out))
    return made


def upload(folder: Path, topic: str, topic_id: UUID) -> Path:
    """The three objects of the segment, compressed to chunks of 10, 20 and 30 bytes; returns the log."""
    stem = folder / f"{topic}-{id_text(topic_id)}" / "0" / f"{0:020d}-{id_text(SEGMENT_ID)}"
    stem.parent.mkdir(parents=True)
    index = {"type": "variable", "originalChunkSize": 100, "originalFileSize": 250,
             "transformedChunks": "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"}  # fmt: skip
    names = ("offset", "timestamp", "producerSnapshot", "leaderEpoch")
    indexes = {name: {"position": at, "size": 1} for at, name in enumerate(names)} | {"transaction": None}
    manifest = {"version": "1", "chunkIndex": index, "segmentIndexes": indexes, "compression": True,
                "remoteLogSegmentMetadata": {"remoteLogSegmentId": {"id": id_text(SEGMENT_ID)}}}  # fmt: skip
    log = stem.with_name(f"{stem.name}.log")
    log.write_bytes(bytes(60))
    stem.with_name(f"{stem.name}.indexes").write_bytes(bytes(4))
    stem.with_name(f"{stem.name}.rsm-manifest").write_text(json.dumps(manifest))
    return log


@pytest.fixture
def make_metadata_topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> Iterator[Callable[[], None]]:
    """Removes the topic after the test: while it exists, the brokers of the shared cluster seem to have tiered storage.
    """
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin, ExitStack() as cleanup:

        def remove() -> None:
            admin.delete_topics([METADATA_TOPIC])
            wait_for(lambda: METADATA_TOPIC not in admin.list_topics(), "the end of the metadata topic")

        def make() -> None:
            make_topic(METADATA_TOPIC, METADATA_PARTITIONS)
            cleanup.callback(remove)

        yield make


def test_manifests_are_compared_with_objects(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, make_metadata_topic: Callable[[], None], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Without metadata, the command reports that. A complete segment is right, and one whose log was cut is not. The
    command also reports the trap, because our brokers do not let the topic be tiered.
    """
    topic = make_topic()
    bootstrap = ["--bootstrap-server", kafka_zk_cluster.bootstrap]
    command = ["tier", "check", "--storage", str(tmp_path), "--topic", topic, *bootstrap]
    assert run(command) == 1
    assert "tiered storage is off" in capsys.readouterr().err

    make_metadata_topic()
    with BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        topic_id = admin.describe_topics([topic])[topic].topic_id
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for value in (b"unknown", *records(topic, topic_id)):
            partition = metadata_partition(topic_id, 0, METADATA_PARTITIONS)
            producer.send(METADATA_TOPIC, value, partition=partition).result()
    log = upload(tmp_path, topic, topic_id)
    assert run(command) == 1
    shown = capsys.readouterr().out
    assert "1 record is not understood" in shown and "1 problem, 1 not checked" in shown
    assert "1 segment of 250 bytes can be read (Aiven's plugin)" in shown

    log.write_bytes(bytes(59))
    assert run([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [(each["kind"], each["bytes"]) for each in found] == [("TRAP", 250), ("SIZE", 59)]

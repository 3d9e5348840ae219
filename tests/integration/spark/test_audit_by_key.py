"""``kafka-zk lake audit --key`` of a table that another program merged from recorded change events."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.main import run
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.admin.group_admin import CommittedOffset
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.spark_jobs.audit.keyed import events_of
from tests.spark_jobs.cdc import recordings

pytestmark = [pytest.mark.integration, pytest.mark.spark]

PARTITIONS = 3


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    """The customers' events, and a group that has read them all."""
    name = make_topic(partitions=PARTITIONS)
    ends = [0] * PARTITIONS
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        records = events_of.records("postgres", "plain", "customers")
        for each in sorted(records, key=lambda each: (each["partition"], each["offset"])):
            headers = [(header["key"], header["value"]) for header in each["headers"]]
            producer.send(name, each["value"], key=each["key"], partition=each["partition"], headers=headers)
            ends[each["partition"]] += 1
        producer.send(name, b"no event", key=b"{}", partition=0)
        producer.flush()
    with BlockingAdmin(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as admin:
        offsets = {TopicPartition(name, number): CommittedOffset(end) for number, end in enumerate(ends)}
        admin.groups.commit(f"group-{name}", offsets)
    return name


def test_rows_that_events_do_not_explain(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("kafka_zk.cli.spark.command_session.command_session", lambda *_: nullcontext(spark))
    rows = {int(str(each["id"])): each["name"] for each in recordings.expected("postgres", "customers")}
    lost, old, twice = sorted(rows)[:3]
    deleted, unknown = 9, 999
    assert deleted not in rows
    del rows[lost]
    rows |= {old: "another", deleted: "deleted", unknown: "made up"}
    ids = [*rows, twice]
    table = pa.table({"id": pa.array(ids, pa.int32()), "name": [rows[each] for each in ids], "loaded": [1] * len(ids)})
    pq.write_table(table, tmp_path / "customers.parquet")

    command = ["lake", "audit", str(tmp_path), "--key", "id", "--topic", topic]
    command += ["--bootstrap-server", kafka_zk_cluster.bootstrap]
    assert run([*command, "--group", f"group-{topic}", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {each["kind"]: json.loads(each["key"])["id"] for each in found["findings"]} == {
        "DUPLICATE": twice, "MISSING": lost, "REMAINS": deleted, "OUTDATED": old, "EXTRA": unknown
    }  # fmt: skip
    loaded, refused = sorted(found["notChecked"], reverse=True)
    assert loaded == "column loaded was never compared: no last event of a row has a value for it"
    assert refused.startswith("1 records are not change events of a row, for example: offset ")
    (missing,) = [each for each in found["findings"] if each["kind"] == "MISSING"]
    assert f"{missing['first']}" in missing["repair"][0]

    assert run(command) == 1
    shown = capsys.readouterr().out
    assert "event that may not have been read yet: " in shown, "without the group, the last events may be unread"
    assert "only values were compared" in shown

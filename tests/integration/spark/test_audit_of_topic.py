"""``kafka-zk lake audit`` against the topic of a cluster: aborted transactions and lost rows."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.cli.main import run
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeTopic

pytestmark = pytest.mark.integration


def write(folder: Path, topic: str, offsets: list[int]) -> None:
    columns: dict[str, Any] = {"topic": [topic] * len(offsets), "partition": [0] * len(offsets), "offset": offsets}
    pq.write_table(pa.table(columns), folder / f"{offsets[0]:05d}.parquet")


def test_only_committed_records_are_missing(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offsets 0 to 2 and 4 to 6 are committed, 8 to 10 aborted, 12 to 14 committed; the others are markers."""
    topic = make_topic()
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for is_committed in (True, True, False, True):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(topic, b"v", partition=0)
            producer.flush()
            (producer.commit_transaction if is_committed else producer.abort_transaction)()
    for offsets in ([0, 1, 2], [4, 5, 6], [12, 13, 14]):
        write(tmp_path, topic, offsets)
    command = ["lake", "audit", str(tmp_path), "--json"]
    assert run(command) == 1, "without the topic, markers look like gaps"
    capsys.readouterr()
    cluster = ["--bootstrap-server", kafka_zk_cluster.bootstrap]
    assert run([*command, *cluster, "--from-earliest"]) == 0
    assert run([*command, "--zookeeper", kafka_zk_cluster.zookeeper_connect]) == 0
    capsys.readouterr()

    (tmp_path / "00004.parquet").unlink()
    assert run([*command, *cluster]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["kind"], finding["first"], finding["last"]) == ("GAP", 4, 6)
    (tmp_path / "00000.parquet").unlink()
    assert run([*command, *cluster]) == 0
    assert run([*command, *cluster, "--from-earliest"]) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]
    assert [(each["kind"], each["first"], each["last"], each["count"]) for each in found] == [("BEFORE", 0, 6, 6)]
    assert run(["lake", "audit", str(tmp_path), *cluster]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [topic, "0", "12", "14", "3", "0", "0", "0", "16"]

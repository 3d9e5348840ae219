"""A broker whose remote storage is an S3 bucket in the layout of Aiven's plugin.

The consumer and the administrator are librdkafka, the server is moto's.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from kafka_zk.cli.main import run
from kafka_zk.testing.cluster import Cluster
from tests.integration.processes import wait_for
from tests.peers.spark.s3 import REGION, S3, s3_server
from tests.storage.tiered.encryption_keys import PRIVATE_PEM, write_pair

pytestmark = [pytest.mark.integration, pytest.mark.embedded, pytest.mark.weekly]

PLUGIN = "io.aiven.kafka.tieredstorage"
KEY_ID, SECRET = "AKIA-of-the-bucket", "of-the-bucket-Lw83"
BUCKET, PREFIX, TOPIC = "tier", "cluster-1/", "orders"
COUNT = 1000


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with s3_server(tmp_path / "moto.log") as server:
        server.client.create_bucket(Bucket=BUCKET)
        yield server


def properties(endpoint: str) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": f"{PLUGIN}.RemoteStorageManager",
        "rsm.config.storage.backend.class": f"{PLUGIN}.storage.s3.S3Storage",
        "rsm.config.storage.s3.bucket.name": BUCKET,
        "rsm.config.storage.s3.region": REGION,
        "rsm.config.storage.s3.endpoint.url": endpoint,
        "rsm.config.storage.s3.path.style.access.enabled": "true",
        "rsm.config.storage.aws.access.key.id": KEY_ID,
        "rsm.config.storage.aws.secret.access.key": SECRET,
        "rsm.config.key.prefix": PREFIX,
        "rsm.config.chunk.size": "4096",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "300",
    }


def encryption(folder: Path) -> dict[str, str]:
    pair, key = write_pair(folder, "k1"), "rsm.config.encryption.key.pairs"
    return {
        "rsm.config.encryption.enabled": "true",
        "rsm.config.encryption.key.pair.id": "k1",
        key: "k1",
        f"{key}.k1.public.key.file": pair.public,
        f"{key}.k1.private.key.file": pair.private,
    }


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_records_in_a_bucket_are_read_and_its_keys_are_shown_nowhere(
    s3: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    """The local log begins late, so most records come from the bucket. The check of the bucket finds nothing wrong."""
    keys = properties(s3.endpoint) | (encryption(tmp_path) if is_encrypted else {})
    with Cluster(1, properties=keys, data=tmp_path / "cluster") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"remote.storage.enable": "true", "segment.bytes": "20000", "local.retention.bytes": "20000"}
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=config)])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "batch.num.messages": 10})
        values = [f"{number} {'x' * 100}".encode() for number in range(COUNT)]
        for value in values:
            producer.produce(TOPIC, value)
        assert producer.flush(30) == 0
        folder = cluster.brokers[0].folder / "data" / f"{TOPIC}-0"
        wait_for(lambda: min(int(path.stem) for path in folder.glob("*.log")) > COUNT // 2, "remote segments", 60)

        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "error"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes | None] = []

        def has_all() -> bool:
            found.extend(message.value() for message in consumer.consume(500, 0.2))
            return len(found) >= COUNT

        wait_for(has_all, "all records", 60)
        consumer.close()
        assert found == values
        logs = [key for key in s3.keys(BUCKET, PREFIX) if key.endswith(".log")]
        assert any(b"x" * 100 in s3.read(BUCKET, key) for key in logs) is not is_encrypted

        for variable, text in {
            "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }.items():  # fmt: skip
            monkeypatch.setenv(variable, text)
        command = ["tier", "check", "--storage", f"s3://{BUCKET}/{PREFIX}", "--bootstrap-server", cluster.bootstrap]
        assert run(command) == 0, capsys.readouterr()

        resource = ConfigResource(ConfigResource.Type.BROKER, "0")
        described = admin.describe_configs([resource])[resource].result(30)
        assert "rsm.config.storage.aws.secret.access.key" in described
        outputs = {
            "the described configuration": str([(key, entry.value) for key, entry in described.items()]),
            "the command": "".join(capsys.readouterr()),
            **{path.name: path.read_text() for path in cluster.brokers[0].folder.glob("broker.log*")},
        }
    secrets = [KEY_ID, SECRET, *PRIVATE_PEM.splitlines()[1:-1]]
    for name, output in outputs.items():
        assert not [each for each in secrets if each in output], name

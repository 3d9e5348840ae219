"""The keys of Aiven's plugin in ``server.properties``."""

import pytest

from kafka_zk.broker.config.aiven_storage import AivenStorageConfig, FileSystemBackend
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.config.remote_storage import RemoteStorageConfig
from kafka_zk.protocol.errors import ApiError
from kafka_zk.storage.tiered.aiven_segment_storage import ChunkSettings
from kafka_zk.storage.tiered.bucket_store import S3Bucket, S3Credentials

PLUGIN = {
    "zookeeper.connect": "z:1", "broker.id": "0", "log.dirs": "/x",
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
    "rsm.config.chunk.size": "4194304",
}  # fmt: skip
FOLDER = {
    **PLUGIN,
    "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage",
    "rsm.config.storage.root": "/tier",
}

S3 = "rsm.config.storage.s3"
AWS = "rsm.config.storage.aws"
BUCKET = {
    **PLUGIN,
    "rsm.config.storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage",
    f"{S3}.bucket.name": "tier",
    f"{S3}.region": "eu-central-1",
}
KEYS = {f"{AWS}.access.key.id": "AKIAKEY", f"{AWS}.secret.access.key": "sesame"}


def test_a_folder() -> None:
    config, warnings = KafkaConfig.from_properties({**FOLDER, "rsm.config.key.prefix": "cluster-1/"})
    assert RemoteStorageConfig.of(config).storage == AivenStorageConfig(
        FileSystemBackend("/tier"), "cluster-1/", ChunkSettings(4 << 20)
    )
    assert not warnings


def test_compression() -> None:
    """Compression can also be limited to segments whose batches are not compressed."""
    keys = {"rsm.config.compression.enabled": "true", "rsm.config.compression.heuristic.enabled": "TRUE"}
    storage = RemoteStorageConfig.of(KafkaConfig.from_properties({**FOLDER, **keys})[0]).storage
    assert isinstance(storage, AivenStorageConfig) and storage.chunks == ChunkSettings(4 << 20, True, True)


def bucket(**more: str) -> S3Bucket:
    config, warnings = KafkaConfig.from_properties({**BUCKET, **more})
    assert not warnings
    storage = RemoteStorageConfig.of(config).storage
    assert isinstance(storage, AivenStorageConfig) and isinstance(storage.backend, S3Bucket)
    return storage.backend


def test_a_bucket_of_amazon() -> None:
    """Without credential keys, the credentials come from the environment."""
    assert bucket() == S3Bucket("tier", "eu-central-1", None, False, None, 5 << 20)
    assert bucket(**KEYS).credentials == S3Credentials("AKIAKEY", "sesame")
    with_token = bucket(**KEYS, **{f"{AWS}.session.token": "opensesame"})
    assert with_token.credentials == S3Credentials("AKIAKEY", "sesame", "opensesame")


def test_a_bucket_of_another_server() -> None:
    """The bucket name goes into the path, unless the configuration says otherwise."""
    endpoint = {f"{S3}.endpoint.url": "http://127.0.0.1:9000/"}
    size = {f"{S3}.multipart.upload.part.size": "26214400"}
    assert bucket(**endpoint, **size) == S3Bucket("tier", "eu-central-1", "http://127.0.0.1:9000", True, None, 25 << 20)
    assert not bucket(**endpoint, **{f"{S3}.path.style.access.enabled": "false"}).is_path_style


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (f"{S3}.bucket.name", ""),
        (f"{S3}.bucket.name", "tier/folder"),
        (f"{S3}.region", ""),
        (f"{S3}.endpoint.url", "ftp://tier.example"),
        (f"{S3}.endpoint.url", "https://key:sesame@tier.example"),
        (f"{S3}.path.style.access.enabled", "maybe"),
        (f"{S3}.multipart.upload.part.size", "5242879"),
        (f"{S3}.region", "eu central"),
        (f"{S3}.region", "eu/central"),
        (f"{S3}.storage.class", "GLACIER"),
        (f"{AWS}.secret.access.key", ""),
        (f"{AWS}.credentials.file", "/etc/aws"),
        (f"{AWS}.certificate.check.enabled", "false"),
        ("rsm.config.storage.root", "/tier"),
    ],
)
def test_a_setting_of_a_bucket_that_cannot_work_is_refused(key: str, text: str) -> None:
    """The message contains no value of any key."""
    with pytest.raises(InvalidBrokerConfig, match=f"^{key}: ") as raised:
        KafkaConfig.from_properties({**BUCKET, **KEYS, key: text})
    for value in (text, "AKIAKEY", "sesame"):
        assert not value or value not in str(raised.value)


def test_a_choice_of_segments_needs_compression() -> None:
    with pytest.raises(InvalidBrokerConfig, match=r"^rsm\.config\.compression\.enabled: must be true"):
        KafkaConfig.from_properties({**FOLDER, "rsm.config.compression.heuristic.enabled": "true"})


def test_a_token_needs_its_key() -> None:
    with pytest.raises(InvalidBrokerConfig, match=rf"^{AWS}\.access\.key\.id: missing"):
        KafkaConfig.from_properties({**BUCKET, f"{AWS}.session.token": "opensesame"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("rsm.config.storage.backend.class", ""),
        ("rsm.config.storage.backend.class", "io.aiven.kafka.tieredstorage.storage.gcs.GcsStorage"),
        ("rsm.config.storage.root", ""),
        ("rsm.config.chunk.size", ""),
        ("rsm.config.chunk.size", "4095"),
        ("rsm.config.chunk.size", "4 MiB"),
        ("rsm.config.chunk.size", "67108865"),
        ("rsm.config.compression.enabled", "zstd"),
        ("rsm.config.encryption.enabled", "yes"),
        ("rsm.config.encryption.key.pairs.k1.public.key.file", "/k1.pem"),
        ("rsm.config.key.prefix", "/tier"),
        ("rsm.config.key.prefix", "a//b"),
        ("rsm.config.key.prefix", "a/../b"),
        ("rsm.config.key.prefix", "50%"),
        ("rsm.config.dir", "/remote"),
        ("rsm.config.fetch.chunk.cache.class", "io.aiven.kafka.tieredstorage.fetch.cache.MemoryChunkCache"),
        ("rsm.config.upload.rate.limit.bytes.per.second", "1048576"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(key: str, text: str) -> None:
    """The message is one sentence. It names the key but not the value, which may be a secret."""
    with pytest.raises(InvalidBrokerConfig, match=f"^{key}: ") as raised:
        KafkaConfig.from_properties({**FOLDER, key: text})
    assert not text or text not in str(raised.value)
    KafkaConfig.from_properties({**FOLDER, "remote.log.storage.system.enable": "false", key: text})


@pytest.mark.parametrize(
    "key",
    ["rsm.config.storage.s3.bucket.name", f"{AWS}.secret.access.key", "rsm.config.other", "rlmm.config.other"],
)
def test_keys_of_plugins_do_not_change_in_zookeeper(key: str) -> None:
    """With changed keys, a restarted broker would look for the segments elsewhere, and ZooKeeper would hold readable
    secrets. Kafka does store such keys; the broker ignores them, and they hide no other key.
    """
    dynamic = DynamicBrokerConfig({**BUCKET, **KEYS})
    before = RemoteStorageConfig.of(dynamic.take({}, {}))
    for is_own in (True, False):
        with pytest.raises(ApiError, match=rf"Cannot update these configs dynamically: Set\({key}\)"):
            dynamic.validate({key: "hush-hush"}, per_broker=is_own)
    config = dynamic.take({key: "hush-hush", "num.io.threads": "3"}, {key: "hush-hush", "max.connections": "9"})
    assert RemoteStorageConfig.of(config) == before and config.max_connections == 9
    assert "hush-hush" not in str(dynamic.effective())

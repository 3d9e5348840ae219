"""The encryption keys of Aiven's plugin in ``server.properties``."""

import pytest

from kafka_zk.broker.config.aiven_encryption import EncryptionConfig
from kafka_zk.broker.config.aiven_storage import AivenStorageConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.config.remote_storage import RemoteStorageConfig
from kafka_zk.storage.tiered.segment_encryption import KeyPairFiles
from tests.kafka_zk.broker.config.test_aiven_storage import FOLDER

E = "rsm.config.encryption"
PAIRS = {
    f"{E}.key.pairs": "k1, k2",
    f"{E}.key.pairs.k1.public.key.file": "/k1.public",
    f"{E}.key.pairs.k1.private.key.file": "/k1.private",
    f"{E}.key.pairs.k2.public.key.file": "/k2.public",
    f"{E}.key.pairs.k2.private.key.file": "/k2.private",
}
FILES = {"k1": KeyPairFiles("/k1.public", "/k1.private"), "k2": KeyPairFiles("/k2.public", "/k2.private")}
ENABLED = {**PAIRS, f"{E}.enabled": "true", f"{E}.key.pair.id": "k2"}


def encryption(keys: dict[str, str]) -> EncryptionConfig | None:
    config, warnings = KafkaConfig.from_properties({**FOLDER, **keys})
    assert not warnings
    storage = RemoteStorageConfig.of(config).storage
    assert isinstance(storage, AivenStorageConfig)
    return storage.encryption


def test_segments_are_encrypted_with_the_named_pair() -> None:
    """Source: RemoteStorageManagerConfigTest.java of the plugin has the same keys."""
    assert encryption(ENABLED) == EncryptionConfig(FILES, "k2")


def test_pairs_without_encryption_are_for_reading() -> None:
    assert encryption(PAIRS) == EncryptionConfig(FILES, None)
    assert encryption({**ENABLED, f"{E}.enabled": "false"}) == EncryptionConfig(FILES, None)
    assert encryption({f"{E}.enabled": "false"}) is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("key.pairs", ""),
        ("key.pairs", "k1,k1"),
        ("key.pairs", "k1,k:2"),
        ("key.pair.id", ""),
        ("key.pair.id", "k3"),
        ("key.pairs.k1.public.key.file", ""),
        ("key.pairs.k2.private.key.file", " "),
        ("key.pairs.k3.private.key.file", "/k3.private"),
        ("key.pairs.k1.private.key.file", "-----BEGIN PRIVATE KEY-----\nMII"),
        ("key.pairs.k1.private.key", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_a_key_that_cannot_work_is_refused(key: str, text: str) -> None:
    """The message leaves out the value, which may be a private key in place of a path."""
    wanted = {**ENABLED, f"{E}.{key}": text}
    if key == "key.pairs":
        wanted = {name: value for name, value in wanted.items() if not name.endswith(".file")}
    with pytest.raises(InvalidBrokerConfig, match=f"^{E}.{key}: ") as raised:
        KafkaConfig.from_properties({**FOLDER, **wanted})
    assert not text.strip() or text not in str(raised.value)

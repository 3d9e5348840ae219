"""The encryption keys of Aiven's plugin in ``server.properties``: ``rsm.config.encryption.…``.

``encryption.key.pairs`` lists the ids of RSA key pairs, whose PEM files further keys name. The manifest of each segment
names the id with which it was encrypted, so that a pair is replaced by adding another one and changing
``encryption.key.pair.id``. Unlike in the plugin, the pairs may be given without ``encryption.enabled``: then encrypted
segments are read, but new ones are not encrypted.
Source: RemoteStorageManagerConfig.java of Aiven-Open/tiered-storage-for-apache-kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.broker.config.plugin_keys import PREFIX, BadRemoteStorage
from kafka_zk.storage.tiered.segment_encryption import KeyPairFiles

ENABLED = f"{PREFIX}encryption.enabled"
KEY_PAIR_ID = f"{PREFIX}encryption.key.pair.id"
KEY_PAIRS = f"{PREFIX}encryption.key.pairs"
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")  # a colon would end the id in a manifest


@dataclass(frozen=True)
class EncryptionConfig:
    """``key_pairs``: by id. ``active``: id of the pair with which segments are encrypted; None not to encrypt them."""

    key_pairs: Mapping[str, KeyPairFiles]
    active: str | None


def parse_encryption(properties: Mapping[str, str], is_enabled: bool) -> EncryptionConfig | None:
    """``is_enabled``: the value of ENABLED. Raises BadRemoteStorage, without values."""
    ids = [each.strip() for each in properties.get(KEY_PAIRS, "").split(",") if each.strip()]
    if not ids:
        if is_enabled:
            raise BadRemoteStorage(f"{KEY_PAIRS}: missing; {ENABLED} needs the ids of key pairs")
        return None
    if any(_ID.fullmatch(each) is None for each in ids) or len(set(ids)) != len(ids):
        raise BadRemoteStorage(f"{KEY_PAIRS}: must be different ids of letters, digits and . _ -, separated by commas")
    active = properties.get(KEY_PAIR_ID, "").strip()
    if is_enabled and active not in ids:
        raise BadRemoteStorage(f"{KEY_PAIR_ID}: must be one of the ids in {KEY_PAIRS}")
    pairs = {each: KeyPairFiles(*(_path(properties, key) for key in _file_keys(each))) for each in ids}
    return EncryptionConfig(pairs, active if is_enabled else None)


def encryption_keys(properties: Mapping[str, str]) -> set[str]:
    """The keys that ``parse_encryption`` reads."""
    ids = [each.strip() for each in properties.get(KEY_PAIRS, "").split(",")]
    return {ENABLED, KEY_PAIR_ID, KEY_PAIRS, *(key for each in ids for key in _file_keys(each))}


def _file_keys(pair_id: str) -> tuple[str, str]:
    return f"{KEY_PAIRS}.{pair_id}.public.key.file", f"{KEY_PAIRS}.{pair_id}.private.key.file"


def _path(properties: Mapping[str, str], key: str) -> str:
    path = properties.get(key, "").strip()
    if not path:
        raise BadRemoteStorage(f"{key}: missing; must be the path of a PEM file")
    if "-----BEGIN" in path:  # an error about a file that does not exist would show the key
        raise BadRemoteStorage(f"{key}: must be the path of a PEM file, not its content")
    return path

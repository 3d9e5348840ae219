"""The keys of Aiven's plugin in ``server.properties``, under the prefix ``rsm.config.``.

Keys that are not supported are refused: a broker that ignored one could write objects that the other brokers cannot
read or find. Messages contain no values, because values may be secrets.
Source: RemoteStorageManagerConfig.java, FileSystemStorageConfig.java and S3StorageConfig.java of
Aiven-Open/tiered-storage-for-apache-kafka.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.integers import decimal_integer
from kafka_zk.broker.config.aiven_encryption import ENABLED, EncryptionConfig, encryption_keys, parse_encryption
from kafka_zk.broker.config.plugin_keys import PREFIX, BadRemoteStorage
from kafka_zk.storage.tiered.aiven_segment_storage import ChunkSettings
from kafka_zk.storage.tiered.bucket_store import S3Bucket, S3Credentials

BACKEND = f"{PREFIX}storage.backend.class"
ROOT = f"{PREFIX}storage.root"
KEY_PREFIX = f"{PREFIX}key.prefix"
CHUNK_SIZE = f"{PREFIX}chunk.size"
COMPRESSION = f"{PREFIX}compression.enabled"
COMPRESSION_HEURISTIC = f"{PREFIX}compression.heuristic.enabled"
FILE_SYSTEM_CLASS = "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"
S3_CLASS = "io.aiven.kafka.tieredstorage.storage.s3.S3Storage"
BUCKET_NAME = f"{PREFIX}storage.s3.bucket.name"
REGION = f"{PREFIX}storage.s3.region"
ENDPOINT = f"{PREFIX}storage.s3.endpoint.url"
PATH_STYLE = f"{PREFIX}storage.s3.path.style.access.enabled"
PART_SIZE = f"{PREFIX}storage.s3.multipart.upload.part.size"
ACCESS_KEY_ID = f"{PREFIX}storage.aws.access.key.id"
SECRET_ACCESS_KEY = f"{PREFIX}storage.aws.secret.access.key"
SESSION_TOKEN = f"{PREFIX}storage.aws.session.token"

_OF_ALL = (BACKEND, KEY_PREFIX, CHUNK_SIZE, COMPRESSION, COMPRESSION_HEURISTIC)
_OF_BACKENDS: Mapping[str, tuple[str, ...]] = {
    FILE_SYSTEM_CLASS: (ROOT,),
    S3_CLASS: (
        BUCKET_NAME, REGION, ENDPOINT, PATH_STYLE, PART_SIZE, ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN,
    ),
}  # fmt: skip
_CHUNK_SIZES = range(4096, (64 << 20) + 1)
_PART_SIZES = range(5 << 20, (64 << 20) + 1)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[A-Za-z0-9_-]{1,63}")  # a part of Amazon's host names
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")
_KEY = re.compile(r"[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*/?")


@dataclass(frozen=True)
class FileSystemBackend:
    """``root``: a folder that all brokers mount."""

    root: str


@dataclass(frozen=True)
class AivenStorageConfig:
    """``key_prefix``: the prefix of all object keys. ``encryption``: None without key pairs."""

    backend: FileSystemBackend | S3Bucket
    key_prefix: str
    chunks: ChunkSettings
    encryption: EncryptionConfig | None = None


def parse_aiven_storage(properties: Mapping[str, str]) -> AivenStorageConfig:
    """Raises: BadRemoteStorage."""
    backend_class = _text(properties, BACKEND)
    if backend_class not in _OF_BACKENDS:
        raise BadRemoteStorage(f"{BACKEND}: must be {' or '.join(_OF_BACKENDS)}")
    known = {*_OF_ALL, *_OF_BACKENDS[backend_class], *encryption_keys(properties)}
    for key in properties:
        if key.startswith(PREFIX) and key not in known:
            raise BadRemoteStorage(f"{key}: not supported with {backend_class}; remove the key")
    backend = _folder(properties) if backend_class == FILE_SYSTEM_CLASS else _bucket(properties)
    encryption = parse_encryption(properties, _boolean(properties, ENABLED, False))
    return AivenStorageConfig(backend, _key_prefix(properties), _chunks(properties), encryption)


def _chunks(properties: Mapping[str, str]) -> ChunkSettings:
    is_compressed = _boolean(properties, COMPRESSION, False)
    skips_batches = _boolean(properties, COMPRESSION_HEURISTIC, False)
    if skips_batches and not is_compressed:
        raise BadRemoteStorage(f"{COMPRESSION}: must be true, because {COMPRESSION_HEURISTIC} is")
    return ChunkSettings(_number(properties, CHUNK_SIZE, _CHUNK_SIZES), is_compressed, skips_batches)


def _folder(properties: Mapping[str, str]) -> FileSystemBackend:
    root = _text(properties, ROOT)
    if not root:
        raise BadRemoteStorage(f"{ROOT}: missing; must be the folder of remote storage")
    return FileSystemBackend(root)


def _bucket(properties: Mapping[str, str]) -> S3Bucket:
    name, region = _text(properties, BUCKET_NAME), _text(properties, REGION)
    if _BUCKET.fullmatch(name) is None:
        raise BadRemoteStorage(f"{BUCKET_NAME}: must be the name of a bucket: 3 to 63 of a-z, 0-9, . and -")
    if _REGION.fullmatch(region) is None:
        raise BadRemoteStorage(f"{REGION}: must be the region of the bucket, for example eu-central-1")
    endpoint = _text(properties, ENDPOINT).rstrip("/") or None
    if endpoint is not None and _URL.fullmatch(endpoint) is None:
        raise BadRemoteStorage(f"{ENDPOINT}: must be http:// or https:// with a host, and may have a port")
    is_path_style = _boolean(properties, PATH_STYLE, endpoint is not None)
    part_bytes = _number(properties, PART_SIZE, _PART_SIZES) if PART_SIZE in properties else _PART_SIZES[0]
    return S3Bucket(name, region, endpoint, is_path_style, _credentials(properties), part_bytes)


def _credentials(properties: Mapping[str, str]) -> S3Credentials | None:
    key_id, secret = _text(properties, ACCESS_KEY_ID), _text(properties, SECRET_ACCESS_KEY)
    token = _text(properties, SESSION_TOKEN)
    if bool(key_id) != bool(secret):
        missing, given = (SECRET_ACCESS_KEY, ACCESS_KEY_ID) if key_id else (ACCESS_KEY_ID, SECRET_ACCESS_KEY)
        raise BadRemoteStorage(f"{missing}: missing; {given} needs it")
    if token and not key_id:
        raise BadRemoteStorage(f"{ACCESS_KEY_ID}: missing; {SESSION_TOKEN} needs it")
    return S3Credentials(key_id, secret, token or None) if key_id else None


def _text(properties: Mapping[str, str], key: str) -> str:
    return properties.get(key, "").strip()


def _key_prefix(properties: Mapping[str, str]) -> str:
    prefix = _text(properties, KEY_PREFIX)
    if prefix and (_KEY.fullmatch(prefix) is None or {".", ".."} & set(prefix.split("/"))):
        raise BadRemoteStorage(
            f"{KEY_PREFIX}: must be names of letters, digits and . _ = -, separated by /, without a / at the beginning"
        )
    return prefix


def _number(properties: Mapping[str, str], key: str, allowed: range) -> int:
    number = decimal_integer(_text(properties, key), allowed)
    if number is None:
        raise BadRemoteStorage(f"{key}: must be a number of bytes from {allowed[0]} to {allowed[-1]}")
    return number


def _boolean(properties: Mapping[str, str], key: str, default: bool) -> bool:
    text = _text(properties, key).lower()
    if text not in ("", "true", "false"):
        raise BadRemoteStorage(f"{key}: must be true or false")
    return text == "true" if text else default

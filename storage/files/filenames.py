"""Names in a log directory, which only this module builds and parses.

The names of a segment's files begin with its base offset in 20 digits. A partition's directory is
``<topic>-<partition>``; if it is being deleted, ``<topic>-<partition>.<32 hex digits>-delete``, with the topic
shortened so that the name has at most 255 bytes. The directory of an incomplete copy ends in ``-future``; its topic is
not shortened.
Source: LogFileUtils.java, UnifiedLog.logDeleteDirName, logFutureDirName@3.9.
"""

import re
from random import Random

from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.base.types import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
MOVED_ASIDE_SUFFIX = ".moved-aside"
_MAX_OFFSET = (1 << 63) - 1
_MAX_PARTITION = (1 << 31) - 1
_MAX_NAME_LENGTH = 255
_OFFSET_NAME = re.compile(r"([0-9]{20})(\..+)")
_PARTITION_DIR = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
_DELETED_DIR = re.compile(r"[^/]+\.[0-9a-f]{32}-delete")

_FUTURE_DIR = re.compile(r"(.+)\.[0-9a-f]{32}-future")


def offset_file(base_offset: int, suffix: str) -> str:
    """``00000000000000000042.log`` for 42 and ``.log``."""
    return f"{base_offset:020d}{suffix}"


def parse_offset_file(name: str) -> tuple[int, str] | None:
    """(offset, suffix with its dot) of a file name with an offset, else None."""
    match = _OFFSET_NAME.fullmatch(name)
    return (int(match[1]), match[2]) if match and int(match[1]) <= _MAX_OFFSET else None


def partition_dir(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def parse_partition_dir(name: str) -> TopicPartition | None:
    """The partition whose log directory has this name; None for another name."""
    if name.endswith(DELETE_DIR_SUFFIX) and _DELETED_DIR.fullmatch(name):
        return None
    match = _PARTITION_DIR.fullmatch(name)
    if match is None or int(match[2]) > _MAX_PARTITION or match[2] != str(int(match[2])):
        return None
    return TopicPartition(match[1], int(match[2]))


def deleted_dir(tp: TopicPartition, random: Random = SYSTEM_RANDOM) -> str:
    """A new name for the directory of a partition that is being deleted."""
    suffix = f"-{tp.partition}.{random_uuid(random).hex}{DELETE_DIR_SUFFIX}"
    return tp.topic[: _MAX_NAME_LENGTH - len(suffix)] + suffix


def future_dir(tp: TopicPartition, random: Random = SYSTEM_RANDOM) -> str:
    """A new name for the directory of a copy that will replace the partition's. Raises: ValueError if the topic name is
    too long."""
    name = f"{partition_dir(tp)}.{random_uuid(random).hex}{FUTURE_DIR_SUFFIX}"
    if len(name) > _MAX_NAME_LENGTH:
        raise ValueError(f"{tp.topic}: a directory name of {len(name)} bytes; at most {_MAX_NAME_LENGTH} are allowed")
    return name


def parse_future_dir(name: str) -> TopicPartition | None:
    """The partition whose incomplete copy has this name; None for another name."""
    match = _FUTURE_DIR.fullmatch(name)
    return parse_partition_dir(match[1]) if match else None


def is_deleted_dir(name: str) -> bool:
    return _DELETED_DIR.fullmatch(name) is not None

"""Errors of batches and logs, which ``kafka_zk/broker/handlers/error_map.py`` maps to Kafka's codes.

An ``OSError`` is never wrapped, because it means that the log directory failed, not the batch.
"""

import errno


class StorageError(Exception):
    """Base of all storage errors."""


class CorruptRecord(StorageError):
    """A batch has a wrong CRC, size or magic."""


class UnpacksTooBig(CorruptRecord):
    """Data would exceed the caller's limit when decompressed."""


class InvalidRecord(StorageError):
    """A well-formed batch breaks a rule: for example, a client sent a control batch, or the offsets have gaps.

    ``record_errors``: (index in the batch, problem).
    """

    record_errors: tuple[tuple[int, str], ...] = ()


class RecordTooLarge(StorageError):
    """A batch above ``max.message.bytes``."""


class RecordBatchTooLarge(StorageError):
    """A batch above ``segment.bytes``."""


class InvalidTimestamp(StorageError):
    """A record's timestamp is outside the topic's bounds. ``record_errors``: as in ``InvalidRecord``."""

    record_errors: tuple[tuple[int, str], ...] = ()


class UnsupportedCompression(StorageError):
    """A codec that is unknown, not installed, or not supported by the request's version."""


class OffsetOutOfRange(StorageError):
    """The offset is before the log start offset or after the upper bound."""


class OffsetMovedToTieredStorage(StorageError):
    """The offset is readable, but its record is in remote storage only."""


class OutOfOrderSequence(StorageError):
    """An idempotent producer skipped a sequence number."""


class TooManyProducers(StorageError):
    """The broker cannot remember another producer; the client should retry."""


class InvalidProducerEpoch(StorageError):
    """A producer used an old epoch."""


class TransactionCoordinatorFenced(StorageError):
    """A marker from a coordinator that has been replaced."""


class LogDirLocked(StorageError):
    """Another process holds the log directory's ``.lock``."""


class InconsistentLogDir(StorageError):
    """``meta.properties`` names another broker or cluster, or KRaft mode."""


class CorruptMetaProperties(StorageError, OSError):
    """``meta.properties`` has an invalid value, which takes the directory offline, as in Kafka."""


class InvalidConfig(StorageError):
    """A configuration value is invalid. The message names the key and the allowed values."""


class InvalidTransactionState(StorageError):
    """A batch that does not belong to the producer's open transaction."""


class TooManyOpenFiles(OSError):
    """Readers keep too many files open, so a reader must wait or be disconnected. The disk is fine."""


_SHORTAGES = frozenset((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOBUFS))


def is_shortage(error: OSError) -> bool:
    """True if the system temporarily lacks memory, file descriptors or processes. The disk is fine."""
    return isinstance(error, TooManyOpenFiles) or error.errno in _SHORTAGES


class CorruptCheckpoint(StorageError):
    """A checkpoint file has invalid content. The message names the file."""


class CorruptSnapshot(StorageError):
    """A producer snapshot is unreadable. An older snapshot or the log replaces it."""

"""Errors of batches and logs; ``kafka_zk/broker/handlers/error_map.py`` maps them to Kafka's error codes.

An ``OSError`` is never wrapped: it means that the log directory has failed, not that the batch is bad.
"""

import errno


class StorageError(Exception):
    """Base of all storage errors."""


class CorruptRecord(StorageError):
    """A batch has a wrong CRC, size or magic."""


class UnpacksTooBig(CorruptRecord):
    """Compressed data that exceed the caller's limit."""


class InvalidRecord(StorageError):
    """A well-formed batch that breaks a rule, such as a control batch from a client or offsets with gaps.

    ``record_errors``: (index in the batch, problem) of the invalid records, if any.
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


class OutOfOrderSequence(StorageError):
    """An idempotent producer skipped a sequence number."""


class TooManyProducers(StorageError):
    """The broker cannot remember another producer. The client should retry."""


class InvalidProducerEpoch(StorageError):
    """A producer used an old epoch."""


class TransactionCoordinatorFenced(StorageError):
    """A marker from a coordinator that has been replaced."""


class LogDirLocked(StorageError):
    """Another process holds the log directory's ``.lock``."""


class InconsistentLogDir(StorageError):
    """``meta.properties`` names another broker or cluster, or KRaft mode."""


class CorruptMetaProperties(StorageError, OSError):
    """``meta.properties`` contains an invalid value. An OSError, because the directory goes offline, as in Kafka."""


class InvalidConfig(StorageError):
    """A topic configuration key or value is not allowed. The message names the key and the allowed values."""


class InvalidTransactionState(StorageError):
    """A batch that does not belong to the producer's open transaction."""


class TooManyOpenFiles(OSError):
    """Too many files are open for readers. A reader must wait or be disconnected. The disk is fine."""


_SHORTAGES = frozenset((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOBUFS))


def is_shortage(error: OSError) -> bool:
    """True if the machine is temporarily short of memory, files or processes. The disk is fine."""
    return isinstance(error, TooManyOpenFiles) or error.errno in _SHORTAGES


class CorruptCheckpoint(StorageError):
    """A checkpoint file is damaged. The message names the file."""


class CorruptSnapshot(StorageError):
    """A producer snapshot is damaged. An older snapshot or the log replaces it."""

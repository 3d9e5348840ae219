"""What can be wrong with a batch or with a log; ``kafka_zk/broker/handlers/error_map.py`` gives each its Kafka code.

An ``OSError`` is never wrapped: it means that the log directory is gone, not that the batch is bad.
"""

import errno


class StorageError(Exception):
    """Base of everything that storage refuses."""


class CorruptRecord(StorageError):
    """CRC, size or magic of a batch is wrong."""


class UnpacksTooBig(CorruptRecord):
    """Compressed data that grow beyond the bound of whoever takes them apart."""


class InvalidRecord(StorageError):
    """A well-formed batch that breaks a rule (control batch from a client, offsets that do not count up …).

    ``record_errors``: (index in the batch, what is wrong) of single records, if it is their fault.
    """

    record_errors: tuple[tuple[int, str], ...] = ()


class RecordTooLarge(StorageError):
    """A batch above ``max.message.bytes``."""


class RecordBatchTooLarge(StorageError):
    """A batch above ``segment.bytes``."""


class InvalidTimestamp(StorageError):
    """A record's timestamp lies outside the topic's bounds. ``record_errors``: as of ``InvalidRecord``."""

    record_errors: tuple[tuple[int, str], ...] = ()


class UnsupportedCompression(StorageError):
    """A codec that the request's version does not know, or that nobody knows."""


class OffsetOutOfRange(StorageError):
    """The offset lies before the log start offset or after the upper bound."""


class OutOfOrderSequence(StorageError):
    """An idempotent producer skipped a sequence number."""


class TooManyProducers(StorageError):
    """The broker can remember no other producer; the client is to try again."""


class InvalidProducerEpoch(StorageError):
    """A producer with an old epoch."""


class TransactionCoordinatorFenced(StorageError):
    """A marker of a coordinator that another one has replaced."""


class LogDirLocked(StorageError):
    """Another process holds the log directory's ``.lock``."""


class InconsistentLogDir(StorageError):
    """``meta.properties`` belongs to another broker or cluster, or to KRaft mode."""


class CorruptMetaProperties(StorageError, OSError):
    """``meta.properties`` holds an invalid value. An OSError, because the directory goes offline, as in Kafka."""


class InvalidConfig(StorageError):
    """A topic configuration key or value is not allowed; the message names the key and what is allowed."""


class InvalidTransactionState(StorageError):
    """A batch outside the transaction that its producer has open."""


class TooManyOpenFiles(OSError):
    """Readers keep as many files open as they may: one of them has to wait, or to go. The disk is well."""


_SHORTAGES = frozenset((errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOBUFS))


def is_shortage(error: OSError) -> bool:
    """Whether the machine is short of memory, files or processes, which may pass; the disk is well."""
    return isinstance(error, TooManyOpenFiles) or error.errno in _SHORTAGES


class CorruptCheckpoint(StorageError):
    """A checkpoint file that cannot be read; the message names the file."""


class CorruptSnapshot(StorageError):
    """A producer snapshot that cannot be read; an older one, or the log itself, replaces it."""

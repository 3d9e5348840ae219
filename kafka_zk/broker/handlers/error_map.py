"""Which Kafka error code an exception means to a client. Source: Errors.java@3.9 (``forException``)."""

from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client import errors as registry
from kafka_zk.storage.files import errors as storage

_CODES: dict[type[Exception], ErrorCode] = {
    storage.CorruptRecord: ErrorCode.CORRUPT_MESSAGE,
    storage.InvalidRecord: ErrorCode.INVALID_RECORD,
    storage.RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    storage.RecordBatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    storage.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    storage.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    storage.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    storage.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.TooManyProducers: ErrorCode.NOT_ENOUGH_REPLICAS,  # every client sends the batch again
    storage.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    storage.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    storage.InvalidConfig: ErrorCode.INVALID_CONFIG,
    registry.RegistryError: ErrorCode.UNKNOWN_SERVER_ERROR,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}

EXPECTED: tuple[type[Exception], ...] = (ApiError, *_CODES)
"""What a handler turns into a code of its response; anything else is our bug and closes the connection."""


def error_code(error: Exception) -> ErrorCode:
    """The code for an exception of ``EXPECTED``."""
    if isinstance(error, ApiError):
        return error.code
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def controller_error_code(error: Exception) -> ErrorCode:
    """As ``error_code``, for what only the controller does: its reign ends with its session, so ask its successor.

    Kafka answers UNKNOWN_SERVER_ERROR, with which its clients give up. What was under way may have been done, so that a
    second try is told that it exists.
    """
    return ErrorCode.NOT_CONTROLLER if isinstance(error, registry.SessionLost) else error_code(error)


def error_message(error: Exception) -> str | None:
    """One sentence for the fields that carry one."""
    return error.message if isinstance(error, ApiError) else str(error) or None

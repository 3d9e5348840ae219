"""Maps exceptions to Kafka's error codes. Source: Errors.java@3.9 (``forException``)."""

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
    storage.OffsetMovedToTieredStorage: ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
    storage.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.TooManyProducers: ErrorCode.NOT_ENOUGH_REPLICAS,  # every client retries the batch
    storage.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.TransactionCoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    storage.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    storage.InvalidConfig: ErrorCode.INVALID_CONFIG,
    registry.RegistryError: ErrorCode.UNKNOWN_SERVER_ERROR,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}

EXPECTED: tuple[type[Exception], ...] = (ApiError, *_CODES)
"""Exceptions that handlers turn into error codes. Any other exception is a bug and closes the connection."""


def error_code(error: Exception) -> ErrorCode:
    if isinstance(error, ApiError):
        return error.code
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def controller_error_code(error: Exception) -> ErrorCode:
    """Like ``error_code``, for operations of the controller: after a lost session, clients retry with the next
    controller.

    Kafka responds UNKNOWN_SERVER_ERROR, and clients give up. The operation may have taken effect, so a retry may find
    that the resource exists.
    """
    return ErrorCode.NOT_CONTROLLER if isinstance(error, registry.SessionLost) else error_code(error)


def error_message(error: Exception) -> str | None:
    """The message for responses that have a field for it."""
    return error.message if isinstance(error, ApiError) else str(error) or None

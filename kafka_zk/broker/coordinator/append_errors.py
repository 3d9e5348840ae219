"""Maps the result of an append to a coordinator's log to an error code, and that code to the client's error.

Source: GroupMetadataManager.storeGroup, TransactionStateManager.appendTransactionToLog@3.9.
"""

from kafka_zk.base.types import LogAppendInfo
from kafka_zk.broker.replica.delayed_produce import AppendResult
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.errors import RecordBatchTooLarge, RecordTooLarge

COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""Error of the append -> client error, for both coordinators."""


def code_of(result: AppendResult) -> ErrorCode:
    """The error of a failed append, otherwise NONE."""
    if isinstance(result, LogAppendInfo):
        return ErrorCode.NONE
    if isinstance(result, ApiError):
        return result.code
    if isinstance(result, OSError):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if isinstance(result, RecordTooLarge | RecordBatchTooLarge):
        return ErrorCode.MESSAGE_TOO_LARGE
    return ErrorCode.UNKNOWN_SERVER_ERROR

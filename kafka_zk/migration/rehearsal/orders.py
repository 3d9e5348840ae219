"""A stand-in's responses to a controller's orders: always success. Pure.

Source: RequestSender of MigrationPropagator.scala@3.9, which sends LeaderAndIsr, UpdateMetadata and StopReplica to the
brokers that have not moved to KRaft.
"""

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestHeader

ORDERS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)
VERSIONS = {key: BROKER_VERSIONS[key] for key in (*ORDERS, ApiKey.API_VERSIONS)}


def response_to(header: RequestHeader) -> bytes | bytearray:
    """The response's frame. Partitions without an error need not be listed. Raises ProtocolError for other
    APIs."""
    message = codec.response(header.api_key)(error_code=int(ErrorCode.NONE))
    if header.api_key == ApiKey.API_VERSIONS:
        version = codec.response(ApiKey.API_VERSIONS).ApiVersion
        message.api_keys = [
            version(api_key=int(key), min_version=lowest, max_version=highest)
            for key, (lowest, highest) in VERSIONS.items()
        ]
        message.zk_migration_ready = True
    return codec.encode_response(header.api_key, header.api_version, header.correlation_id, message)

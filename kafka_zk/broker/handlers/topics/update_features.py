"""UpdateFeatures: changes the finalized features of the cluster (KIP-584). The controller handles it.

    1  which kind of downgrade, validation only    0  whether downgrades are allowed

Source: KafkaApis.handleUpdateFeatures@3.9. Unlike Kafka's controller in ZooKeeper mode, this one supports
``validate_only``.
"""

from collections.abc import Mapping
from typing import Any

from kafka_zk.broker.config.inter_broker_protocol import has_features
from kafka_zk.broker.controller.feature_updates import FeatureUpdate, UpgradeType
from kafka_zk.broker.controller.operations import UpdateFeatures
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_UPGRADE_TYPE_SINCE = 1

Response = codec.response(ApiKey.UPDATE_FEATURES)


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return one result per feature, or an error for the whole request."""
    if not services.authorizer.authorize(context, Operation.ALTER, CLUSTER):
        return _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not services.controller.is_active:
        return _refused(ErrorCode.NOT_CONTROLLER)
    if not has_features(services.config.inter_broker_protocol_version):
        return _refused(ErrorCode.INVALID_REQUEST, "Feature versioning system is disabled.")
    updates = [_update(header.api_version, each) for each in request.feature_updates]
    validate_only = header.api_version >= _UPGRADE_TYPE_SINCE and request.validate_only
    try:
        outcomes = await services.controller.carry_out(UpdateFeatures(updates, validate_only))
    except EXPECTED as error:
        return _refused(error_code(error), error_message(error))
    return Response(error_message=None, results=_results(outcomes))


def _update(version: int, update: Any) -> FeatureUpdate:
    if version >= _UPGRADE_TYPE_SINCE:
        kind = update.upgrade_type
    else:
        kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(update.feature, update.max_version_level, kind)


def _results(outcomes: Mapping[str, ApiError | None]) -> list[Any]:
    return [
        Response.UpdatableFeatureResult(
            feature=feature,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.message,
        )
        for feature, error in outcomes.items()
    ]


def _refused(code: ErrorCode, message: str | None = None) -> Any:
    return Response(error_code=code, error_message=message)

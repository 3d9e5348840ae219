"""What all requests of the controller have in common: who may send them and when they count."""

from kafka_zk.handlers.services import Services
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.security.authorizer import CLUSTER, Operation

UNKNOWN_EPOCH = -1


def refusal(services: Services, context: RequestContext, controller_epoch: int, broker_epoch: int) -> ErrorCode:
    """NONE if the request is the latest controller's and meant for this start of the broker (KIP-380)."""
    if not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if broker_epoch != UNKNOWN_EPOCH and broker_epoch < services.broker_epoch():
        return ErrorCode.STALE_BROKER_EPOCH
    if not services.replicas.accept_controller(controller_epoch):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE

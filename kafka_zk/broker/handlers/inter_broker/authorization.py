"""The checks that all controller requests share: authorization, controller epoch and broker epoch."""

from twisted.logger import Logger

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.client.errors import RegistryError

UNKNOWN_EPOCH = -1

_log = Logger()


async def confirm_controller(services: Services, context: RequestContext, controller_epoch: int) -> None:
    """Check in ZooKeeper that this controller was elected; ``refusal`` uses the result.

    Raises: ProtocolError if ZooKeeper is unavailable. The error closes the connection, and the controller retries.
    """
    if not _may_act_for_the_cluster(services, context):
        return
    epochs = services.controller_epochs
    try:
        if not await epochs.confirm(controller_epoch):
            _tell_unconfirmed(services, context, controller_epoch)
    except RegistryError as error:
        raise ProtocolError(f"controller epoch {controller_epoch} cannot be confirmed: {error}") from error


def refusal(services: Services, context: RequestContext, controller_epoch: int, broker_epoch: int) -> ErrorCode:
    """NONE if the request is from the latest controller and was sent to this registration of the broker (KIP-380);
    otherwise the error.

    A newer epoch needs ``confirm_controller``.
    """
    if not _may_act_for_the_cluster(services, context):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if broker_epoch != UNKNOWN_EPOCH and broker_epoch < services.broker_epoch():
        return ErrorCode.STALE_BROKER_EPOCH
    if controller_epoch > services.controller_epochs.newest:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    if not services.replicas.accept_controller(controller_epoch):
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


def _may_act_for_the_cluster(services: Services, context: RequestContext) -> bool:
    return services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER)


def _tell_unconfirmed(services: Services, context: RequestContext, controller_epoch: int) -> None:
    """Log an unconfirmed epoch, once an hour for each address."""
    said = services.unconfirmed_peers.mention(context.peer_host, services.clock.seconds())
    if said is not None:
        _log.warn(
            "{connection} refused: no controller with epoch {epoch} was elected; /controller_epoch is {newest}. "
            "Only brokers should reach the listener {listener}.{said}",
            connection=context.connection_id,
            epoch=controller_epoch,
            newest=services.controller_epochs.newest,
            listener=context.listener_name,
            said=said,
        )

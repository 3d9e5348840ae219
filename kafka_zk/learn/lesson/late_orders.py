"""The requests of a controller that was replaced without noticing; the lesson sends them in its place."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import ReplicaAssignment
from kafka_zk.broker.controller.control_requests import LeaderAndIsrPartition, LeaderAndIsrRequest, Node, Sender
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.learn.lesson.errors import LessonFailed
from kafka_zk.network.client import connect
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import SetData
from kafka_zk.registry.client.errors import ControllerMoved
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, encode_state, state_path

_VERSION = 4  # has topic names, because topic ids do not matter here


def late_write(
    client: KazooBlockingClient, epoch_zk_version: int, tp: TopicPartition, state: LeaderIsrAndControllerEpoch
) -> str:
    """Write a partition's state as the controller that wrote this version of ``/controller_epoch``.

    Returns the reason of the rejection. Raises LessonFailed if the write succeeds.
    """
    write = SetData(state_path(*tp), encode_state(state), -1)
    try:
        run_blocking(ControllerRegistry(client).fenced_multi(epoch_zk_version, [write]))
    except ControllerMoved as refusal:
        return str(refusal)
    raise LessonFailed(f"the state of {tp} was written by a former controller")


def late_leader_and_isr(
    client: KazooBlockingClient,
    broker_id: int,
    controller_id: int,
    controller_epoch: int,
    tp: TopicPartition,
    state: LeaderIsrAndControllerEpoch,
) -> ErrorCode:
    """A broker's response to a LeaderAndIsr of this controller epoch. Raises KafkaError, LessonFailed."""
    brokers = run_blocking(BrokerRegistry(client).live())
    found = brokers.get(broker_id)
    endpoint = found and found[0].endpoint("PLAINTEXT")
    if found is None or not endpoint:
        raise LessonFailed(f"broker {broker_id} is not registered")
    host, port = endpoint.host, endpoint.port
    request = LeaderAndIsrRequest(
        Sender(controller_id, controller_epoch, found[1]),
        {tp: LeaderAndIsrPartition(state, ReplicaAssignment(tuple(state.isr)), False)},
        {},
        (Node(broker_id, host, port),),
    )
    (message,) = request.messages(_VERSION)

    thread = reactor_thread()

    async def send() -> int:
        connection = await connect(thread.reactor, host, port)
        try:
            answer = await connection.request(request.api_key, message, version=_VERSION)
            return int(answer.error_code)
        finally:
            await connection.disconnect()

    return ErrorCode(thread.call(send))

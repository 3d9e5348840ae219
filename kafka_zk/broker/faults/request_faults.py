"""Faults that act on requests. Each fault wraps an API's handler only while it is open, so that requests cost no more
otherwise.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, NamedTuple

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.turns import pause
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.faults.fault import Fault
from kafka_zk.broker.faults.request_names import is_of_broker, names_in
from kafka_zk.broker.group.coordinator import MemberIdentity
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.table import RawHandler, Response, Wrap
from kafka_zk.broker.quota.enforcement import ThrottledAnswer
from kafka_zk.broker.replica.fetch_session import FetchContext
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.error_response import error_response
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchResponse, write_fetch_response
from kafka_zk.protocol.fetch_request import read_fetch_request
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.storage.log.producer_snapshot import ProducerEntry
from kafka_zk.storage.records.record_batch import HEADER_SIZE, NO_PRODUCER_ID, read_header

_REASON = "a fault injected by a test"
_OF_SESSIONS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)
"""A Fetch response has these codes at the top level, and all other codes in its partitions."""


class InterceptedRequest(NamedTuple):
    """One request. ``handler``: the API's usual handler, or one that another fault wraps."""

    services: Services
    context: RequestContext
    header: RequestHeader
    body: memoryview
    request: Any
    handler: RawHandler

    def handle(self, body: memoryview | None = None) -> Coroutine[Any, Any, Response]:
        """Pass the request to the handler. ``body``: the changed body; None: the received one."""
        return self.handler(self.services, self.context, self.header, self.body if body is None else body)


class RequestSeam(NamedTuple):
    """``act``: handles a request for which the fault fires. ``applies``: True if the fault can act on the request,
    before filters are considered."""

    act: Callable[[Fault, InterceptedRequest], Awaitable[Response]]
    applies: Callable[[InterceptedRequest], bool] = lambda intercepted: True


def around(fault: Fault, seam: RequestSeam) -> Wrap:
    """Returns a function that wraps a handler with the fault."""

    def wrap(handler: RawHandler) -> RawHandler:
        async def handle(
            services: Services, context: RequestContext, header: RequestHeader, body: memoryview
        ) -> Response:
            request = codec.decode_request(header.api_key, header.api_version, body)
            intercepted = InterceptedRequest(services, context, header, body, request, handler)
            if is_of_broker(services, header, request) or not seam.applies(intercepted):
                return await intercepted.handle()
            if not fault.hits(names_in(services, header, body, request)):
                return await intercepted.handle()
            return await seam.act(fault, intercepted)

        return handle

    return wrap


async def _error(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Respond with an error, without handling the request."""
    header, code = intercepted.header, fault.arguments["code"]
    if header.api_key == ApiKey.FETCH:
        return write_fetch_response(header.api_version, header.correlation_id, _failed_fetch(intercepted, code))
    response = error_response(header.api_key, header.api_version, intercepted.request, code, _REASON)
    return None if response is None else [codec.encode_response(*header[:3], response)]


def _failed_fetch(intercepted: InterceptedRequest, code: ErrorCode) -> FetchResponse:
    """A Fetch response without a session, so the client begins a new one."""
    if code in _OF_SESSIONS:
        return FetchResponse([], error_code=code)
    request = read_fetch_request(intercepted.header.api_version, intercepted.body)
    wanted = intercepted.services.fetch_sessions.peek(request)
    return FetchContext(wanted, None, False).response(
        [(topic, FetchedPartition(partition, code)) for topic, partition in wanted]
    )


async def _drop_answer(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Let the request take effect, and close the connection instead of responding."""
    await intercepted.handle()
    raise ClientGone


async def _throttle(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Respond as a quota does: with a throttle time, during which the broker does not read the connection."""
    parts = await intercepted.handle()
    return None if parts is None else ThrottledAnswer(parts, fault.arguments["ms"])


async def _slow_fetch(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Delay the read, as a slow disk would."""
    await pause(intercepted.services.clock, fault.arguments["ms"] / 1000)
    return await intercepted.handle()


async def _rebalance_amid_commit(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Remove the member from its group before its commit is handled, as the session timeout would."""
    request = intercepted.request
    member = MemberIdentity(request.member_id, request.group_instance_id, _REASON)
    intercepted.services.coordinator.leave(request.group_id, [member])
    return await intercepted.handle()


async def _out_of_order_sequence(fault: Fault, intercepted: InterceptedRequest) -> Response:
    """Forget the producer's last batch before its next batch is checked, as if this leader had never received it."""
    entry = next(_continued(intercepted))
    batches = entry.batches[:-1]
    entry.forget_batches()
    for batch in batches:
        entry.add(batch)
    return await intercepted.handle()


def _continued(intercepted: InterceptedRequest) -> Iterator[ProducerEntry]:
    """The state of each idempotent producer whose next expected batch is in the request."""
    for topic in intercepted.request.topic_data:
        for data in topic.partition_data:
            if data.records is None or len(data.records) < HEADER_SIZE:
                continue
            header = read_header(data.records)
            partition = intercepted.services.replicas.partitions.get(TopicPartition(topic.name, data.index))
            if header.producer_id == NO_PRODUCER_ID or partition is None or partition.log is None:
                continue
            entry = partition.log.producers.producers.get(header.producer_id)
            if entry is not None and 0 < header.base_sequence == entry.last_sequence + 1:
                yield entry


def is_answered(intercepted: InterceptedRequest) -> bool:
    """False for a Produce request without acknowledgement."""
    return bool(intercepted.header.api_key != ApiKey.PRODUCE or intercepted.request.acks != 0)


REQUEST_FAULTS: Mapping[str, RequestSeam] = {
    "error": RequestSeam(_error),
    "drop_answer": RequestSeam(_drop_answer, is_answered),
    "throttle": RequestSeam(_throttle, is_answered),
    "slow_fetch": RequestSeam(_slow_fetch),
    "rebalance_amid_commit": RequestSeam(_rebalance_amid_commit, lambda commit: bool(commit.request.member_id)),
    "out_of_order_sequence": RequestSeam(_out_of_order_sequence, lambda intercepted: any(_continued(intercepted))),
}

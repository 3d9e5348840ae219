"""Passes a request to an intercepting function before the broker handles it, and then the response."""

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.broker.faults.arguments import REQUESTS, RESPONSES
from kafka_zk.broker.faults.fault import Fault
from kafka_zk.broker.faults.interceptor import Interceptor
from kafka_zk.broker.faults.request_faults import InterceptedRequest, RequestSeam, is_answered
from kafka_zk.broker.handlers.table import Response
from kafka_zk.network.connection_output import hold_slices
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.frame import UNCOUNTED_BYTES
from kafka_zk.protocol.interception import MOST_BYTES, Call, Outcome, Verdict
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import response_body_position, response_header


def intercepting(interceptor: Interceptor, messages: str | None) -> RequestSeam:
    """``messages``: REQUESTS or RESPONSES; None: both. Messages larger than MOST_BYTES pass unchanged."""

    async def act(fault: Fault, intercepted: InterceptedRequest) -> Response:
        body = intercepted.body
        if messages != RESPONSES and len(body) <= MOST_BYTES:
            verdict = await interceptor.ask(Call(intercepted.header, body))
            if verdict.outcome in (Outcome.DROP, Outcome.RESPONSE):
                return _answer(intercepted, verdict)
            if verdict.outcome is Outcome.REQUEST:
                body = memoryview(verdict.body)
        if messages == REQUESTS or not is_answered(intercepted):
            return await intercepted.handle(body)
        request = bytes(body)
        response = await intercepted.handle(body)
        if response is None or sum(map(len, response)) + len(request) > MOST_BYTES:
            return response
        whole = _read(intercepted, response)
        position = response_body_position(whole, *intercepted.header[:2])
        verdict = await interceptor.ask(Call(intercepted.header, request, whole[position:]))
        # Keep the class of the list, which may be ThrottledAnswer.
        response[:] = [whole] if verdict.outcome is Outcome.PASS else _answer(intercepted, verdict)
        return response

    return RequestSeam(act, lambda intercepted: messages != RESPONSES or is_answered(intercepted))


def _answer(intercepted: InterceptedRequest, verdict: Verdict) -> list[Part]:
    """The response in the function's verdict. Raises: ClientGone, to close the connection, if the verdict has no
    response."""
    if verdict.outcome is not Outcome.RESPONSE:
        raise ClientGone
    return [_counted(intercepted, response_header(*intercepted.header[:3]) + verdict.body)]


def _read(intercepted: InterceptedRequest, response: list[Part]) -> memoryview:
    """The whole response, with the records that would otherwise be sent from files.

    Raises: ClientGone if a file was truncated: sending from it would also close the connection.
    """
    with hold_slices(response):
        whole = b"".join(part if isinstance(part, Buffer) else part.read() for part in response)
    if len(whole) < sum(map(len, response)):
        raise ClientGone
    return memoryview(_counted(intercepted, whole))


def _counted(intercepted: InterceptedRequest, response: bytes) -> bytes:
    if len(response) > UNCOUNTED_BYTES:
        intercepted.context.memory.take(len(response))  # returned when the client has received the response
    return response

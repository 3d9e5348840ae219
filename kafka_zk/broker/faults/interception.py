"""Asks an intercepting function about a request before the broker handles it, and about the response to it."""

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.broker.faults.arguments import REQUESTS, RESPONSES
from kafka_zk.broker.faults.fault import Fault
from kafka_zk.broker.faults.interceptor import Interceptor
from kafka_zk.broker.faults.request_faults import Asked, RequestSeam, is_answered
from kafka_zk.broker.handlers.table import Response
from kafka_zk.network.connection_output import hold_slices
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.frame import UNCOUNTED_BYTES
from kafka_zk.protocol.interception import MOST_BYTES, Call, Outcome, Verdict
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import response_body_position, response_header


def intercepting(interceptor: Interceptor, messages: str | None) -> RequestSeam:
    """``messages``: REQUESTS or RESPONSES; None: both. Messages above MOST_BYTES pass."""

    async def act(fault: Fault, asked: Asked) -> Response:
        body = asked.body
        if messages != RESPONSES and len(body) <= MOST_BYTES:
            verdict = await interceptor.ask(Call(asked.header, body))
            if verdict.outcome in (Outcome.DROP, Outcome.RESPONSE):
                return _answer(asked, verdict)
            if verdict.outcome is Outcome.REQUEST:
                body = memoryview(verdict.body)
        if messages == REQUESTS or not is_answered(asked):
            return await asked.handle(body)
        request = bytes(body)
        response = await asked.handle(body)
        if response is None or sum(map(len, response)) + len(request) > MOST_BYTES:
            return response
        whole = _read(asked, response)
        position = response_body_position(whole, *asked.header[:2])
        verdict = await interceptor.ask(Call(asked.header, request, whole[position:]))
        # The list's class stays: it may be that of a throttled answer.
        response[:] = [whole] if verdict.outcome is Outcome.PASS else _answer(asked, verdict)
        return response

    return RequestSeam(act, lambda asked: messages != RESPONSES or is_answered(asked))


def _answer(asked: Asked, verdict: Verdict) -> list[Part]:
    """Raises: ClientGone to close the connection."""
    if verdict.outcome is not Outcome.RESPONSE:
        raise ClientGone
    return [_counted(asked, response_header(*asked.header[:3]) + verdict.body)]


def _read(asked: Asked, response: list[Part]) -> memoryview:
    """The whole response, with the records that would otherwise be sent from files.

    Raises: ClientGone if a file was truncated: sending from it would also close the connection.
    """
    with hold_slices(response):
        whole = b"".join(part if isinstance(part, Buffer) else part.read() for part in response)
    if len(whole) < sum(map(len, response)):
        raise ClientGone
    return memoryview(_counted(asked, whole))


def _counted(asked: Asked, response: bytes) -> bytes:
    if len(response) > UNCOUNTED_BYTES:
        asked.context.memory.take(len(response))  # until the client has received it
    return response

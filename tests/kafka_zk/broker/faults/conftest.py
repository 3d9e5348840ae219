"""A broker with faults, without sockets or ZooKeeper."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from kafka_zk.broker.faults.faults import Faults, Seams
from kafka_zk.broker.faults.faults_api import FaultsApi
from kafka_zk.broker.faults.interceptor import Interceptor
from kafka_zk.broker.faults.stepped_clock import SteppedClock
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.protocol.interception import MOST_FRAME_BYTES, Call, Verdict, decode_call, encode_verdict, framed
from kafka_zk.protocol.request import RequestHeader
from tests.kafka_zk.broker.conftest import CONTEXT, Harness, build_harness

TOKEN = "0123456789abcdef"


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return build_harness(tmp_path)


class Transport(StringTransport):
    def abortConnection(self) -> None:
        self.disconnecting = True

    def setTcpNoDelay(self, enabled: bool) -> None: ...


class Function:
    """Stands for the process of an intercepting function, without a socket. ``calls``: the calls that the broker has
    sent.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.transport: Any = Transport()  # type: ignore[no-untyped-call]
        self.interceptor = Interceptor(self.clock, TOKEN)
        self.calls: list[Call] = []
        self._decoder = FrameDecoder(MOST_FRAME_BYTES)
        self.interceptor.makeConnection(self.transport)  # type: ignore[no-untyped-call]
        self.token = self._sent()[0]

    def _sent(self) -> list[bytes]:
        sent = list(map(bytes, self._decoder.feed(self.transport.value())))
        self.transport.clear()
        return sent

    def receive(self) -> list[Call]:
        self.calls += [decode_call(memoryview(frame)) for frame in self._sent()]
        return self.calls

    def answer(self, verdict: Verdict) -> None:
        self.interceptor.dataReceived(framed(encode_verdict(verdict)))

    async def connect(self, port: int) -> Interceptor:
        return self.interceptor


class Installed:
    """``ask`` dispatches an encoded request and returns the decoded response."""

    def __init__(self, broker: Harness) -> None:
        self.services = broker.services
        self.dispatcher = Dispatcher(broker.services)
        self.clock = SteppedClock(Clock())
        self.function = Function()
        nothing = cast(Any, None)
        connect = self.function.connect
        seams = Seams(broker.services, self.dispatcher, nothing, self.clock, nothing, connect, nothing)
        self.faults = Faults(seams)
        self.api = FaultsApi(self.faults, TOKEN)

    def begin(self, **document: Any) -> Any:
        return done(self.faults.begin(document))

    def handler(self, api_key: ApiKey) -> Any:
        return self.dispatcher._raw_handlers.get(api_key)

    def metadata(self) -> Any:
        return decoded_metadata(done(self.dispatch_metadata()))

    def dispatch_metadata(self) -> Any:
        request = codec.request(ApiKey.METADATA)(topics=[codec.request(ApiKey.METADATA).MetadataRequestTopic(name="t")])
        body = memoryview(bytes(codec.encode_body(request, ApiKey.METADATA, 1)))
        header = RequestHeader(ApiKey.METADATA, 1, 7, "app")
        return self.dispatcher.dispatch(CONTEXT, header, body)


def decoded_metadata(parts: Any) -> Any:
    return codec.decode_response(ApiKey.METADATA, 1, memoryview(b"".join(map(bytes, parts)))[4:])


def done(working: "Coroutine[Any, Any, Any] | Deferred[Any]") -> Any:
    results: list[Any] = []
    deferred = maybeDeferred(lambda: working) if isinstance(working, Deferred) else ensureDeferred(working)
    deferred.addBoth(results.append)
    [result] = results
    if hasattr(result, "raiseException"):
        result.raiseException()
    return result


@pytest.fixture
def installed(broker: Harness) -> Installed:
    broker.lead("t")
    cast(Any, broker.services.controller).is_active = False
    return Installed(broker)

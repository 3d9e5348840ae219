"""An intercepting function sees a request before and after it is handled, and may change, answer or drop it."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.broker.handlers.data import fetch, produce
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.interception import PASS, Outcome, Verdict
from tests.kafka_zk.broker.faults.conftest import Installed, decoded_metadata

METADATA = ApiKey.METADATA


class Exchanged:
    """One Metadata request with an intercepting function. ``results``: what the broker does after all verdicts."""

    def __init__(self, installed: Installed) -> None:
        self.calls = installed.function.receive
        self.results: list[Any] = []
        self.waiting: Deferred[Any] = ensureDeferred(installed.dispatch_metadata())
        self.waiting.addBoth(self.results.append)

    @property
    def topics(self) -> list[str]:
        return [topic.name for topic in decoded_metadata(self.results[0]).topics]


def body(kind: str, *topics: str) -> bytes:
    if kind == "request":
        request = codec.request(METADATA)
        message = request(topics=[request.MetadataRequestTopic(name=name) for name in topics])
    else:
        response = codec.response(METADATA)
        message = response(topics=[response.MetadataResponseTopic(name=name) for name in topics])
    return bytes(codec.encode_body(message, METADATA, 1))


def test_a_function_sees_the_request_and_then_the_response(installed: Installed) -> None:
    fault = installed.begin(fault="intercept", port=1, api="Metadata")
    exchanged = Exchanged(installed)
    [call] = exchanged.calls()
    assert (call.header.api_key, call.header.client_id, call.response) == (METADATA, "app", None)
    assert codec.decode_request(METADATA, 1, call.request).topics[0].name == "t"
    installed.function.answer(PASS)
    _, call = exchanged.calls()
    assert call.response is not None
    assert codec.decode_response(METADATA, 1, call.response).topics[0].name == "t"
    assert not exchanged.results
    installed.function.answer(PASS)
    assert exchanged.topics == ["t"]
    assert fault.fired == 1


@pytest.mark.parametrize(
    ("messages", "verdict", "topics"),
    [
        ("requests", Verdict(Outcome.REQUEST, body("request")), []),
        ("requests", Verdict(Outcome.RESPONSE, body("response", "made up")), ["made up"]),
        ("responses", Verdict(Outcome.RESPONSE, body("response", "changed")), ["changed"]),
        ("responses", PASS, ["t"]),
    ],
)
def test_a_verdict_replaces_the_message(
    installed: Installed, messages: str, verdict: Verdict, topics: list[str]
) -> None:
    installed.begin(fault="intercept", port=1, messages=messages)
    exchanged = Exchanged(installed)
    assert len(exchanged.calls()) == 1
    installed.function.answer(verdict)
    assert exchanged.topics == topics


@pytest.mark.parametrize("messages", ["requests", "responses"])
def test_a_dropped_message_closes_the_connection(installed: Installed, messages: str) -> None:
    installed.begin(fault="intercept", port=1, messages=messages)
    exchanged = Exchanged(installed)
    exchanged.calls()
    installed.function.answer(Verdict(Outcome.DROP))
    assert exchanged.results[0].check(ClientGone)


def test_apis_have_their_usual_handlers_after_the_fault_and_once_the_function_is_lost(installed: Installed) -> None:
    fault = installed.begin(fault="intercept", port=1)
    assert installed.handler(ApiKey.PRODUCE) is not produce.handle
    installed.function.interceptor.connectionLost()
    assert installed.handler(ApiKey.PRODUCE) is produce.handle and installed.handler(METADATA) is None
    installed.faults.end(fault.number)
    assert installed.handler(ApiKey.FETCH) is fetch.handle


def test_a_fault_that_ends_lets_the_request_pass_that_waits(installed: Installed) -> None:
    fault = installed.begin(fault="intercept", port=1, messages="requests")
    exchanged = Exchanged(installed)
    installed.faults.end(fault.number)
    assert exchanged.topics == ["t"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "intercept needs 'port'"),
        ({"port": 0}, "port: 0 is not a number from 1 to 65535"),
        ({"port": 1, "host": "10.0.0.1"}, "intercept has no argument 'host'"),
        ({"port": 1, "messages": "both"}, "messages: 'both' is not requests or responses"),
    ],
)
def test_an_invalid_interception_is_refused(installed: Installed, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidFault, match=reason):
        installed.begin(fault="intercept", **arguments)

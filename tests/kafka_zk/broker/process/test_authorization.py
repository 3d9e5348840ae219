"""What an authorizer hears of a request."""

from typing import Any

import pytest

from kafka_zk.broker.process.authorization import telling_requests
from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader

HEADER = RequestHeader(ApiKey.CREATE_DELEGATION_TOKEN, 0, 1, None)


async def _no_answer() -> None:
    return None


def heard(authorizer: Authorizer, context: RequestContext) -> RequestContext:
    contexts: list[RequestContext] = []

    def dispatch(context: RequestContext, header: RequestHeader, body: memoryview) -> Any:
        contexts.append(context)
        return _no_answer()

    telling_requests(authorizer, dispatch)(context, HEADER, memoryview(b"")).close()
    return contexts[0]


@pytest.mark.parametrize("by_token", [False, True])
def test_it_hears_the_request_and_who_asks(by_token: bool) -> None:
    """Whether by a token, too: whoever has one gets no other."""
    context = RequestContext("L", "SASL_SSL", "User:a", "h", 1, "c", token_authenticated=by_token)
    assert heard(Authorizer(), context) == context._replace(api_key=HEADER.api_key)
    assert heard(NoAuthorizer(()), context) is context

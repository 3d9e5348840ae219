"""The request context that a broker's authorizer receives."""

from collections.abc import Coroutine
from typing import Any

import pytest

from kafka_zk.broker.process.authorization import with_api_key
from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader


@pytest.mark.parametrize("by_token", [False, True])
def test_an_authorizer_hears_of_the_api_and_everything_else_stays(by_token: bool) -> None:
    """In particular, the context still says whether the client logged in with a token. Without an authorizer, the
    dispatcher is not wrapped.
    """
    seen: list[RequestContext] = []

    async def answer() -> None:
        return None

    def dispatch(context: RequestContext, header: RequestHeader, body: memoryview) -> Coroutine[Any, Any, None]:
        seen.append(context)
        return answer()

    context = RequestContext("SASL", "SASL_SSL", "User:a", "127.0.0.1", 1, "id", token_authenticated=by_token)
    header = RequestHeader(int(ApiKey.METADATA), 12, 7, "client")
    with_api_key(Authorizer(), dispatch)(context, header, memoryview(b"")).close()
    assert seen == [context._replace(api_key=int(ApiKey.METADATA))]
    assert with_api_key(NoAuthorizer([]), dispatch) is dispatch

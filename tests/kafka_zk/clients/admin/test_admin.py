"""Configurations of several topics, one of which is refused."""

from collections.abc import Coroutine
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.clients.admin.admin import TOPIC_RESOURCE, Admin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_Response = codec.response(ApiKey.DESCRIBE_CONFIGS)
_Result = _Response.DescribeConfigsResult


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """An admin client that may not describe the topic "secret"."""

    async def answer(broker_id: int | None, api_key: ApiKey, message: Any) -> Any:
        results = []
        for each in message.resources:
            is_refused = each.resource_name == "secret"
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_refused else ErrorCode.NONE
            entry = _Result.DescribeConfigsResourceResult(name="k", value="v", config_source=5, read_only=False)
            results.append(
                _Result(
                    error_code=int(code), error_message=None, resource_type=TOPIC_RESOURCE,
                    resource_name=each.resource_name, configs=[] if is_refused else [entry],
                )
            )  # fmt: skip
        return _Response(results=results)

    made = Admin(Clock(), bootstrap_servers="b0:9092")
    monkeypatch.setattr(made, "_ask_broker", answer)
    return made


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("waits, although the broker has answered")


def test_error_of_one_topic_is_its_result(admin: Admin) -> None:
    found = _run(admin.try_describe_topic_configs(["a", "secret"]))
    assert [(entry.name, entry.value) for entry in found["a"]] == [("k", "v")]
    assert found["secret"].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_error_of_one_topic_is_raised_if_all_are_needed(admin: Admin) -> None:
    assert list(_run(admin.describe_topic_configs(["a", "b"]))) == ["a", "b"]
    with pytest.raises(BrokerError, match="configuration of secret: TOPIC_AUTHORIZATION_FAILED"):
        _run(admin.describe_topic_configs(["a", "secret"]))

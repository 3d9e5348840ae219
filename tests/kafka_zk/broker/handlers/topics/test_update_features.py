"""UpdateFeatures: both versions, and which brokers refuse it."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import FakeController, Harness

Make = Callable[..., Harness]


def _request(feature: str, level: int, **how: Any) -> Any:
    request = codec.request(ApiKey.UPDATE_FEATURES)
    updates = [request.FeatureUpdateKey(feature=feature, max_version_level=level, **how)]
    return request(timeout_ms=1000, feature_updates=updates)


def _codes(answer: Any) -> tuple[int, dict[str, int]]:
    return answer.error_code, {each.feature: each.error_code for each in answer.results}


@pytest.mark.parametrize(("version", "how"), [(0, {"allow_downgrade": True}), (1, {"upgrade_type": 2})])
def test_what_was_left_can_be_deleted_and_nothing_finalized(harness: Make, version: int, how: dict[str, Any]) -> None:
    broker = harness()
    deleted = broker.ask(ApiKey.UPDATE_FEATURES, version, _request("left", 0, **how))
    assert _codes(deleted) == (0, {"left": 0})
    refused = broker.ask(ApiKey.UPDATE_FEATURES, version, _request("new", 1))
    assert _codes(refused) == (0, {"new": ErrorCode.INVALID_REQUEST})
    assert "not supported" in refused.results[0].error_message


def test_an_old_protocol_has_no_features(harness: Make) -> None:
    broker = harness(inter_broker_protocol_version="2.6")
    assert broker.ask(ApiKey.UPDATE_FEATURES, 1, _request("left", 0)).error_code == ErrorCode.INVALID_REQUEST


def test_only_the_controller_answers(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeController, "is_active", False)
    assert harness().ask(ApiKey.UPDATE_FEATURES, 1, _request("left", 0)).error_code == ErrorCode.NOT_CONTROLLER

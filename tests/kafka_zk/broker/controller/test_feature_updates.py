"""Updates of finalized features: which are refused, and which features may be deleted."""

import pytest

from kafka_zk.broker.controller.feature_updates import FeatureUpdate, UpgradeType, apply_updates
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.znodes import feature
from tests.kafka_zk.broker.controller.world import Cluster

_UPGRADE, _SAFE, _UNSAFE = UpgradeType


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (FeatureUpdate("", 1, _UPGRADE), "name can not be empty"),
        (FeatureUpdate("f", 1, 0), "unknown upgrade type"),
        (FeatureUpdate("f", 1, 4), "unknown upgrade type"),
        (FeatureUpdate("new", 0, _SAFE), "non-existing"),
        (FeatureUpdate("f", 0, _UPGRADE), "less than 1"),
        (FeatureUpdate("f", 3, _UPGRADE), "upgrade a finalized feature .* to the same value"),
        (FeatureUpdate("f", 3, _SAFE), "downgrade a finalized feature .* to the same value"),
        (FeatureUpdate("f", 2, _UPGRADE), "without setting the downgradeType to SAFE"),
        (FeatureUpdate("f", 2, _UNSAFE), "without setting the downgradeType to SAFE"),
        (FeatureUpdate("f", 4, _SAFE), "can not be greater than"),
        (FeatureUpdate("f", 4, _UPGRADE), "not supported"),
        (FeatureUpdate("f", 2, _SAFE), "not supported"),
        (FeatureUpdate("new", 1, _UPGRADE), "not supported"),
    ],
)
def test_no_level_can_be_finalized(update: FeatureUpdate, said: str) -> None:
    target, outcomes = apply_updates([update], {"f": 3})
    error = outcomes[update.feature]
    assert target == {"f": 3}
    assert error is not None and error.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(type(error), match=said):
        raise error


@pytest.mark.parametrize("kind", [_SAFE, _UNSAFE])
def test_a_finalized_feature_is_deleted_beside_one_that_is_refused(kind: UpgradeType) -> None:
    target, outcomes = apply_updates([FeatureUpdate("f", 0, kind), FeatureUpdate("g", 9, _UPGRADE)], {"f": 3, "g": 1})
    assert target == {"g": 1}
    assert outcomes["f"] is None and outcomes["g"] is not None


@pytest.mark.parametrize("validate_only", [True, False])
def test_the_controller_writes_what_is_left(cluster: Cluster, validate_only: bool) -> None:
    cluster.set(feature.FEATURE, feature.encode(feature.FinalizedFeatures({"f": 3, "g": 1})))
    request = codec.request(ApiKey.UPDATE_FEATURES)
    updates = [request.FeatureUpdateKey(feature="f", max_version_level=0, upgrade_type=_SAFE)]
    wanted = request(timeout_ms=1000, feature_updates=updates, validate_only=validate_only)
    answer = cluster.ask(ApiKey.UPDATE_FEATURES, 1, wanted)
    assert [(each.feature, each.error_code) for each in answer.results] == [("f", 0)]
    data, _ = cluster.zookeeper.tree.get(feature.FEATURE)
    assert feature.decode(data).features == ({"f": 3, "g": 1} if validate_only else {"g": 1})

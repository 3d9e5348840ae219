"""What the collector requests from a node, and what a refusal means; the responses are those of 3.9.1."""

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.task import Clock

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.migration.facts import ApiVersions, Quorum, Unknown
from kafka_zk.migration.node_collector import NodeCollector
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.security.errors import SaslAuthenticationFailed

AT = "h", 9092
DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_Versions = codec.response(ApiKey.API_VERSIONS)
_Configs = codec.response(ApiKey.DESCRIBE_CONFIGS)
_Quorum = codec.response(ApiKey.DESCRIBE_QUORUM)
Answers = Mapping[int, Any]


class Connection:
    """Gives each API its prepared response; other APIs are not offered."""

    on_disconnect = None

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.versions = dict.fromkeys(answers, (0, 2))

    def request(self, api_key: int, message: Any, version: int | None = None) -> "Deferred[Any]":
        if api_key not in self._answers:
            return fail(ApiError(ErrorCode.UNSUPPORTED_VERSION, "no version in common"))
        return succeed(self._answers[api_key])

    def disconnect(self) -> None:
        pass


def collector(answers: Answers | None, *, refuses_login: bool = False) -> NodeCollector:
    """``answers`` None: no process listens at the address."""

    async def connect(*arguments: Any, negotiate: bool = True, **options: Any) -> Any:
        if answers is None:
            raise Refused("refused")
        if refuses_login and negotiate:
            raise SaslAuthenticationFailed("wrong password")
        return Connection(answers)

    clock: Any = Clock()
    return NodeCollector(clock, ClientConfig(), connect)


def done(work: Any) -> Any:
    results: list[Any] = []
    Deferred.fromCoroutine(work).addBoth(results.append)
    return results[0]


def api_versions(**fields: Any) -> Any:
    return _Versions(error_code=0, api_keys=[_Versions.ApiVersion(api_key=1, min_version=0, max_version=17)], **fields)


def configs(error_code: int, *entries: tuple[str, str | None, int]) -> Any:
    result = _Configs.DescribeConfigsResult
    described = [
        result.DescribeConfigsResourceResult(name=name, value=value, config_source=source, is_default=False)
        for name, value, source in entries
    ]
    return _Configs(results=[result(error_code=error_code, resource_type=4, resource_name="1", configs=described)])


def quorum(error_code: int, *observers: int) -> Any:
    partition = _Quorum.TopicData.PartitionData
    replicas = [partition.ReplicaState(replica_id=each) for each in observers]
    described = partition(partition_index=0, error_code=error_code, leader_id=3001, observers=replicas)
    return _Quorum(error_code=0, topics=[_Quorum.TopicData(topic_name="__cluster_metadata", partitions=[described])])


def test_a_broker() -> None:
    feature = _Versions.FinalizedFeatureKey(name="metadata.version", max_version_level=21, min_version_level=21)
    described = configs(0, ("log.dirs", "/data", 4), ("super.users", None, 4), ("ssl.key.password", None, 5))
    node = done(collector({
        18: api_versions(zk_migration_ready=True, finalized_features=[feature]), 32: described,
    }).broker(1, AT))  # fmt: skip
    assert node.api == ApiVersions({1: 17}, is_migration_ready=True, metadata_version=21)
    assert node.configs == {"log.dirs": "/data", "super.users": None}, "a secret is set, another is not"


def test_a_refusal_leaves_the_rest_known() -> None:
    node = done(collector({18: api_versions(), 32: configs(DENIED)}).broker(1, AT))
    assert node.api == ApiVersions({1: 17})
    assert isinstance(node.configs, Unknown) and "CLUSTER_AUTHORIZATION_FAILED" in node.configs.reason
    assert "--command-config" in node.configs.remedy


def test_a_node_that_does_not_listen() -> None:
    node = done(collector(None).controller(3001, AT))
    assert isinstance(node.api, Unknown) and "controller 3001 (h:9092) cannot be asked" in node.api.reason
    assert node.api == node.configs == node.cluster_id == node.has_authorizer


def test_a_node_that_refuses_the_login_shows_its_mode() -> None:
    node = done(collector({18: api_versions(zk_migration_ready=True)}, refuses_login=True).controller(3001, AT))
    assert node.api == ApiVersions({1: 17}, is_migration_ready=True)
    assert isinstance(node.configs, Unknown) and "wrong password" in node.configs.reason
    assert "--command-config" in node.configs.remedy


@pytest.mark.parametrize(
    ("code", "has_authorizer"), [(ErrorCode.SECURITY_DISABLED, False), (DENIED, True), (ErrorCode.NONE, True)]
)
def test_an_authorizer(code: int, has_authorizer: bool) -> None:
    acls = codec.response(ApiKey.DESCRIBE_ACLS)(error_code=int(code))
    cluster = codec.response(ApiKey.DESCRIBE_CLUSTER)(error_code=0, cluster_id="abc")
    node = done(collector({18: api_versions(), 29: acls, 32: configs(0), 60: cluster}).controller(3001, AT))
    assert (node.has_authorizer, node.cluster_id) == (has_authorizer, "abc")


def test_an_api_that_a_node_lacks() -> None:
    node = done(collector({18: api_versions()}).controller(3001, AT))
    assert isinstance(node.cluster_id, Unknown) and node.cluster_id.remedy == "a newer release of this node"


def test_the_quorum() -> None:
    assert done(collector({55: quorum(0, 1, 2)}).quorum({3001: AT})) == Quorum(frozenset({1, 2}), 3001)


@pytest.mark.parametrize("answers", [{55: quorum(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))}, {18: api_versions()}])
def test_a_follower_or_an_old_node_knows_no_quorum(answers: Answers) -> None:
    found = done(collector(answers).quorum({3001: AT}))
    assert isinstance(found, Unknown) and "quorum" in found.reason


def test_a_refused_connection_is_named_once() -> None:
    found = done(collector(None).broker(1, AT)).api
    assert isinstance(found, Unknown) and found.reason.endswith("cannot be asked: the connection was refused")


def test_a_quorum_that_is_refused() -> None:
    found = done(collector({55: quorum(DENIED)}).quorum({3001: AT}))
    assert isinstance(found, Unknown) and "--command-config" in found.remedy


@pytest.mark.parametrize("results", [0, 2])
def test_a_response_with_another_number_of_results(results: int) -> None:
    odd = configs(0)
    odd.results = odd.results * results
    node = done(collector({18: api_versions(), 32: odd}).broker(1, AT))
    assert isinstance(node.configs, Unknown) and f"{results} results instead of one" in node.configs.reason


@pytest.mark.parametrize(("topics", "partitions"), [(0, 1), (2, 1), (1, 0), (1, 2)])
def test_a_quorum_with_another_number_of_results(topics: int, partitions: int) -> None:
    odd = quorum(0)
    odd.topics[0].partitions = odd.topics[0].partitions * partitions
    odd.topics = odd.topics * topics
    found = done(collector({55: odd}).quorum({3001: AT}))
    assert isinstance(found, Unknown) and "results instead of one" in found.reason


def test_the_voters_of_a_dynamic_quorum() -> None:
    node = _Quorum.Node(node_id=3001, listeners=[_Quorum.Node.Listener(name="CONTROLLER", host="c", port=9093)])
    answer = quorum(0)
    answer.nodes = [node]
    assert done(collector({55: answer}).voters([AT])) == {3001: ("c", 9093)}


def test_a_follower_names_no_voters() -> None:
    found = done(collector({55: quorum(int(ErrorCode.NOT_LEADER_OR_FOLLOWER))}).voters([AT]))
    assert isinstance(found, Unknown) and "quorum" in found.reason


def test_voters_that_are_refused() -> None:
    refused = quorum(0)
    refused.error_code = DENIED
    found = done(collector({55: refused}).voters([AT]))
    assert isinstance(found, Unknown) and "--command-config" in found.remedy

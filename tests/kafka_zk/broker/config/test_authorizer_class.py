"""The configuration keys of authorizers."""

import pytest

from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER, super_users
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig

MINIMAL = {"zookeeper.connect": "127.0.0.1:2181", "listeners": "PLAINTEXT://:9092"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer"}, "cannot run Java classes"),
        ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "cannot run Java"),
        ({"authorizer.class.name": "module:Class:x"}, "module:Class"),
        ({"super.users": "User:admin"}, "everyone may do everything"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "super.users": "admin"}, "User:admin;User:broker"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "authorizer.zookeeper.url": "other:2181"}, "another ZooKeeper"),
        ({"authorizer.class.name": ACL_AUTHORIZER, "allow.everyone.if.no.acl.found": "yes"}, "true or false"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(keys: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidBrokerConfig, match=next(reversed(keys))) as refused:
        KafkaConfig.from_properties({**MINIMAL, **keys})
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("wanted", [ACL_AUTHORIZER, "rules:Mine", "my.package.rules:Mine_2"])
def test_kafkas_own_and_python_classes_are_accepted(wanted: str) -> None:
    keys = {
        "authorizer.class.name": wanted,
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
        "authorizer.zookeeper.url": "127.0.0.1:2181",
    }
    config, warnings = KafkaConfig.from_properties({**MINIMAL, **keys})
    assert config.authorizer_class_name == wanted and config.allow_everyone_if_no_acl_found
    assert [warning.partition(":")[0] for warning in warnings] == ["authorizer.zookeeper.url"]


def test_there_is_no_authorizer_by_default() -> None:
    config, _ = KafkaConfig.from_properties({**MINIMAL, "authorizer.class.name": "", "super.users": " "})
    assert not config.authorizer_class_name and not config.allow_everyone_if_no_acl_found


def test_super_users_are_separated_by_semicolons() -> None:
    """The separator is not a comma, because certificate names contain commas."""
    assert super_users(" User:CN=a,O=b ;User:admin; ") == {"User:CN=a,O=b", "User:admin"}

"""SCRAM users through brokers: the requests, and the handling of responses."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from kafka_zk.clients.admin.scram_admin import ScramAdmin
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.scram import SaltedPassword, ScramLogin

Described = codec.response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
Altered = codec.response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
User = Described.DescribeUserScramCredentialsResult
PASSWORD = SaltedPassword("SCRAM-SHA-512", b"salted", b"salt", 8192)


class Brokers:
    """Brokers that return one response and keep the requests; ``asked_controller``: the APIs of requests to the
    controller.
    """

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[Any] = []
        self.asked_controller: list[ApiKey] = []

    async def request_any(self, api_key: ApiKey, message: Any) -> Any:
        self.requests.append(message)
        return self.answer

    async def ask_controller(self, api_key: ApiKey, message: Any, codes_of: Callable[[Any], Sequence[int]]) -> Any:
        self.asked_controller.append(api_key)
        self.requests.append(message)
        assert len(codes_of(self.answer)) == 1
        return self.answer

    @property
    def admin(self) -> ScramAdmin:
        cluster: Any = self
        return ScramAdmin(cluster, self.ask_controller)


def result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    return stopped.value.value


def altered(code: int = ErrorCode.NONE, message: str | None = None) -> Any:
    return Altered(results=[Altered.AlterUserScramCredentialsResult(user="a", error_code=code, error_message=message)])


def test_users_are_listed_with_each_mechanism() -> None:
    infos = [User.CredentialInfo(mechanism=number, iterations=4096 * number) for number in (2, 1)]
    brokers = Brokers(Described(results=[User(user=user, credential_infos=infos) for user in ("b", "a")]))
    assert result(brokers.admin.list_users()) == [
        ScramLogin(user, f"SCRAM-SHA-{bits}", iterations)
        for user in ("a", "b")
        for bits, iterations in ((256, 4096), (512, 8192))
    ]
    assert brokers.requests[0].users is None


@pytest.mark.parametrize("result_code", [None, ErrorCode.RESOURCE_NOT_FOUND])
def test_an_error_in_the_list_is_raised(result_code: int | None) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = Described(results=[User(user="a", error_code=result_code)]) if result_code else Described(error_code=code)
    with pytest.raises(BrokerError) as raised:
        result(Brokers(answer).admin.list_users())
    assert raised.value.code == (result_code or code)


def test_the_controller_gets_the_salted_password() -> None:
    brokers = Brokers(altered())
    result(brokers.admin.set_password("a", PASSWORD))
    (sent,) = brokers.requests
    (upsertion,) = sent.upsertions
    assert brokers.asked_controller == [ApiKey.ALTER_USER_SCRAM_CREDENTIALS] and not sent.deletions
    assert (upsertion.name, upsertion.mechanism, upsertion.iterations) == ("a", 2, 8192)
    assert (upsertion.salt, upsertion.salted_password) == (b"salt", b"salted")


def test_the_controller_gets_the_mechanisms_to_remove() -> None:
    brokers = Brokers(altered())
    result(brokers.admin.remove_passwords("a", ["SCRAM-SHA-256", "SCRAM-SHA-512"]))
    (sent,) = brokers.requests
    assert [(each.name, each.mechanism) for each in sent.deletions] == [("a", 1), ("a", 2)] and not sent.upsertions


def test_a_refusal_keeps_its_code_and_shows_no_secret() -> None:
    admin = Brokers(altered(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")).admin
    with pytest.raises(BrokerError) as raised:
        result(admin.set_password("a", PASSWORD))
    assert raised.value.code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert str(raised.value) == "changing the user a: UNACCEPTABLE_CREDENTIAL (Too few iterations)"
    assert "salted=" not in repr(PASSWORD)

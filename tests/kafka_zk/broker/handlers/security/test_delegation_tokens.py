"""Requests for delegation tokens: permissions, the order of checks, and what responses reveal."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer, Operation, Resource
from kafka_zk.broker.security.delegation_token_rules import TokenLimits
from kafka_zk.broker.security.delegation_tokens import DelegationTokens
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.delegation_tokens import DelegationTokenRegistry
from tests.kafka_zk.broker.conftest import Harness
from tests.registry.world import World

CREATE, RENEW, EXPIRE, DESCRIBE = (
    ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN,
)  # fmt: skip


class Rights(Authorizer):
    """An authorizer that allows only the listed operations."""

    def __init__(self, *allowed: tuple[Operation, Resource]) -> None:
        self.allowed = allowed

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return (operation, resource) in self.allowed

    may = authorize


class Broker:
    def __init__(self, harness: Harness) -> None:
        self.world = World(1)
        self.harness = harness
        self.services = harness.services
        (client,) = self.world.clients
        self.tokens = self.services.delegation_tokens = DelegationTokens(
            b"secret", TokenLimits(10_000, 5_000), DelegationTokenRegistry(client), client, self.world.scheduler.clock,
            Random(0), ScramCredentials(b"cluster").invented,
        )  # fmt: skip
        self.world.scheduler.run(self.tokens.start())
        self.services.authorizer = Rights()

    def ask(self, api_key: ApiKey, user: str = "alice", *, protocol: str = "SASL_SSL", is_token: bool = False,
            version: int | None = None, **fields: Any) -> Any:  # fmt: skip
        context = RequestContext("L", protocol, f"User:{user}", "127.0.0.1", 1, "test", token_authenticated=is_token)
        message = codec.request(api_key)(**fields)
        highest = 3 if api_key in (CREATE, DESCRIBE) else 2
        version = highest if version is None else version

        async def answer() -> Any:
            return await self.harness.start(api_key, version, message, context)

        return self.world.scheduler.run(answer())

    def create(self, user: str = "alice", renewers: tuple[str, ...] = (), **options: Any) -> Any:
        renewer = codec.request(CREATE).CreatableRenewers
        listed = [renewer(principal_type=name.split(":")[0], principal_name=name.split(":")[1]) for name in renewers]
        fields = {"renewers": listed, "max_lifetime_ms": -1, "owner_principal_type": None, "owner_principal_name": None}
        return self.ask(CREATE, user, **{**fields, **options})


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Broker:
    return Broker(harness())


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_token_is_made_of_the_secret_and_its_id(broker: Broker, version: int) -> None:
    made = broker.create(renewers=("User:bob",), version=version)
    assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
    assert bytes(made.hmac) == broker.tokens.hmac(made.token_id)
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 10_000
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == 5_000
    if version == 3:
        assert made.token_requester_principal_name == "alice"


@pytest.mark.parametrize(
    "options",
    [{"is_token": True}, {"protocol": "PLAINTEXT"}, {"protocol": "SSL", "user": "ANONYMOUS"}],
    ids=["by a token", "plaintext", "without a certificate"],
)
def test_who_is_not_authenticated_or_only_by_a_token_gets_none(broker: Broker, options: dict[str, Any]) -> None:
    codes = [
        broker.create(**options).error_code,
        broker.ask(RENEW, hmac=b"x", renew_period_ms=-1, **options).error_code,
        broker.ask(EXPIRE, hmac=b"x", expiry_time_period_ms=-1, **options).error_code,
        broker.ask(DESCRIBE, owners=None, **options).error_code,
    ]
    assert codes == [ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED] * 4


def test_a_client_with_a_certificate_may_have_tokens(broker: Broker) -> None:
    assert broker.create("CN=alice", protocol="SSL").error_code == 0


def test_without_a_secret_there_are_none(broker: Broker) -> None:
    """Invalid principal types and missing permissions are reported first."""
    broker.services.delegation_tokens = None
    assert broker.create().error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert broker.create(renewers=("Group:g",)).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert broker.ask(DESCRIBE, owners=None).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    code = broker.ask(RENEW, hmac=b"x", renew_period_ms=-1).error_code
    assert code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def test_tokens_for_others_need_a_permission(broker: Broker) -> None:
    for_bob: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    refused = broker.create(**for_bob)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert bytes(refused.hmac) == b""
    broker.services.authorizer = Rights((Operation.CREATE_TOKENS, Resource("User", "User:bob")))
    made = broker.create(**for_bob)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "bob", "alice")


def test_owners_and_renewers_renew_and_end_a_token(broker: Broker) -> None:
    made = broker.create(renewers=("User:bob",))
    for user, code in (("eve", ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH), ("bob", 0), ("alice", 0)):
        answer = broker.ask(RENEW, user, hmac=made.hmac, renew_period_ms=7_000)
        assert answer.error_code == code
        assert (answer.expiry_timestamp_ms == -1) == bool(code)
    ended = broker.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=-1)
    assert ended.error_code == 0 and ended.expiry_timestamp_ms > 0
    again = broker.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=-1)
    assert (again.error_code, again.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)


def shown(broker: Broker, user: str, owners: tuple[str, ...] | None = None) -> list[str]:
    owner = codec.request(DESCRIBE).DescribeDelegationTokenOwner
    wanted = None if owners is None else [owner(principal_type="User", principal_name=name) for name in owners]
    return [token.principal_name for token in broker.ask(DESCRIBE, user, owners=wanted).tokens]


def test_a_token_is_shown_to_its_owner_its_renewers_and_whoever_may_see_it(broker: Broker) -> None:
    of_alice = broker.create("alice", renewers=("User:bob",))
    broker.create("carol")
    assert shown(broker, "alice") == shown(broker, "bob") == ["alice"]
    assert shown(broker, "eve") == []
    broker.services.authorizer = Rights((Operation.DESCRIBE, Resource("DelegationToken", of_alice.token_id)))
    assert shown(broker, "eve") == ["alice"]
    broker.services.authorizer = Rights((Operation.DESCRIBE_TOKENS, Resource("User", "User:carol")))
    assert shown(broker, "eve") == ["carol"]


def test_a_request_may_name_owners_or_renewers(broker: Broker) -> None:
    broker.create("alice", renewers=("User:bob",))
    broker.services.authorizer = NoAuthorizer({"PLAINTEXT"})
    seen = [shown(broker, "eve", owners) for owners in (None, (), ("bob",), ("carol",))]
    assert seen == [["alice"], [], ["alice"], []]


def test_no_token_is_for_an_owner_that_is_no_user(broker: Broker) -> None:
    """The permission checks would be for Group:bob, but the token would authenticate User:bob."""
    broker.services.authorizer = NoAuthorizer([])
    made = broker.create(owner_principal_type="Group", owner_principal_name="bob")
    assert (made.error_code, list(broker.tokens.all())) == (ErrorCode.INVALID_PRINCIPAL_TYPE, [])

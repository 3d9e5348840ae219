"""The rules of a token at a given time."""

import pytest

from kafka_zk.broker.security import delegation_token_rules as rules
from kafka_zk.broker.security.delegation_token_rules import TokenLimits
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation
from tests.bench.request_cost import opcodes

LIMITS = TokenLimits(max_lifetime_ms=1000, expiry_time_ms=300)
ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))


def new(lifetime_ms: int = -1) -> TokenInformation:
    return rules.new_token("id", ALICE, ALICE, [BOB], lifetime_ms, 10_000, LIMITS)


def test_an_id_is_22_letters_that_a_path_can_have() -> None:
    assert rules.token_id_of(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expiry_ms"),
    [(-1, 11_000, 10_300), (0, 11_000, 10_300), (200, 10_200, 10_200), (500, 10_500, 10_300), (5000, 11_000, 10_300)],
)
def test_a_token_lasts_as_long_as_is_wanted_and_allowed(lifetime_ms: int, max_ms: int, expiry_ms: int) -> None:
    token = new(lifetime_ms)
    assert (token.issue_ms, token.max_ms, token.expiry_ms) == (10_000, max_ms, expiry_ms)


def test_times_stay_within_64_bits() -> None:
    limits = TokenLimits(2**63 - 1, 2**63 - 1)
    token = rules.new_token("id", ALICE, ALICE, [], -1, 10_000, limits)
    assert token.max_ms == token.expiry_ms == 2**63 - 1
    assert rules.renewed(token, ALICE, 2**63 - 1, 10_000, limits).expiry_ms == 2**63 - 1


@pytest.mark.parametrize(("period_ms", "expiry_ms"), [(-1, 10_500), (0, 10_200), (700, 10_900), (2000, 11_000)])
def test_an_owner_or_a_renewer_renews_it_up_to_its_end(period_ms: int, expiry_ms: int) -> None:
    for principal in (ALICE, BOB):
        assert rules.renewed(new(), principal, period_ms, 10_200, LIMITS).expiry_ms == expiry_ms


def test_a_negative_period_ends_it_at_once_even_if_it_has_expired() -> None:
    assert rules.ended(new(), BOB, -1, 99_000) is None
    ended = rules.ended(new(), ALICE, 50, 10_200)
    assert ended is not None and ended.expiry_ms == 10_250


def test_nobody_else_may_and_not_when_it_has_expired() -> None:
    """If both apply, the first error counts, as in Kafka."""

    def codes(principal: Principal, now_ms: int) -> list[ErrorCode]:
        with pytest.raises(ApiError) as renewal:
            rules.renewed(new(), principal, -1, now_ms, LIMITS)
        with pytest.raises(ApiError) as end:
            rules.ended(new(), principal, 1, now_ms)
        return [renewal.value.code, end.value.code]

    assert codes(EVE, 10_000) == codes(EVE, 99_000) == [ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH] * 2
    assert codes(BOB, 10_301) == [ErrorCode.DELEGATION_TOKEN_EXPIRED] * 2


def test_a_request_names_the_owners_or_renewers_that_it_wants() -> None:
    wanted = [None, frozenset[Principal](), frozenset([EVE]), frozenset([EVE, BOB])]
    assert [rules.is_asked_for(new(), owners) for owners in wanted] == [True, False, False, True]


def test_how_many_owners_are_asked_for_does_not_matter() -> None:
    token, few, many = new(), frozenset([EVE]), frozenset(Principal("User", f"user{each}") for each in range(500))
    assert opcodes(lambda: rules.is_asked_for(token, many)) <= opcodes(lambda: rules.is_asked_for(token, few))

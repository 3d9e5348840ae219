"""Unsecured tokens: made from JAAS options, and validated as by Kafka's default validator."""

import pytest

from kafka_zk.security.unsecured_jws import InvalidToken, claims_of, encode, unsecured_token, validate_unsecured

NOW_MS = 1_700_000_000_000


def test_a_token_of_jaas_options_is_valid_until_it_expires() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
    }
    token = unsecured_token(options, NOW_MS)
    valid = validate_unsecured(token.value.value, NOW_MS + 59_999, {"unsecuredValidatorRequiredScope": "b"})
    assert (valid.principal_name, valid.expires_ms, valid.scope) == ("alice", NOW_MS + 60_000, frozenset({"a", "b"}))
    assert (token.expires_ms, token.extensions) == (NOW_MS + 60_000, {"traceId": "123"})
    assert claims_of(token.value.value)["level"] == 3
    with pytest.raises(InvalidToken, match="expired"):
        validate_unsecured(token.value.value, NOW_MS + 60_000)


@pytest.mark.parametrize(
    "options", [{}, {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "x"},
                {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"}],
)  # fmt: skip
def test_options_that_make_no_token(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="unsecuredLogin"):
        unsecured_token(options, NOW_MS)


def claims(**more: object) -> dict[str, object]:
    return {"sub": "alice", "iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 60, **more}


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "form"),
        ("a.b.c", "base64url"),
        ("e30.W10.", "objects"),
        (encode({"alg": "HS256"}, claims()), "none"),
        (encode({"alg": "none"}, claims()) + "c2ln", "none"),
        (encode({"alg": "none"}, claims(exp=None)), "exp is missing"),
        (encode({"alg": "none"}, claims(exp="tomorrow")), "not a time"),
        (encode({"alg": "none"}, claims(exp=True)), "not a time"),
        (encode({"alg": "none"}, claims(exp=float("inf"))), "not a time"),
        (encode({"alg": "none"}, claims(iat=NOW_MS / 1000 + 1)), "not valid yet"),
        (encode({"alg": "none"}, claims(sub=None)), "principal"),
    ],
)
def test_tokens_that_are_refused(token: str, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason) as refused:
        validate_unsecured(token, NOW_MS)
    assert refused.value.status == "invalid_token"


def test_a_missing_scope_is_told() -> None:
    with pytest.raises(InvalidToken) as refused:
        validate_unsecured(encode({"alg": "none"}, claims(scope="x y")), NOW_MS,
                           {"unsecuredValidatorRequiredScope": "a"})  # fmt: skip
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "[a]")


def test_a_clock_may_be_skewed() -> None:
    token = encode({"alg": "none"}, claims(iat=NOW_MS / 1000 + 1))
    assert validate_unsecured(token, NOW_MS, {"unsecuredValidatorAllowableClockSkewMs": "1000"})

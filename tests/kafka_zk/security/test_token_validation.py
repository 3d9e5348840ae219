"""Unsecured tokens: which are accepted, by the rules of Kafka's default validator."""

import base64

import pytest

from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.oauthbearer import Token
from kafka_zk.security.token_validation import RefusedToken, UnsecuredTokens, ValidToken, parse
from kafka_zk.security.unsecured_jws import encode, unsecured_token

NOW_MS = 1_700_000_000_000


def made(**more: object) -> str:
    claims = {"sub": "alice", "iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 60, **more}
    return encode({"alg": "none"}, {name: value for name, value in claims.items() if value is not None})


def test_a_token_that_a_client_makes_of_its_options_is_taken() -> None:
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginListClaim_scope": "|a|b"}
    token: Token = unsecured_token(options, NOW_MS)
    validator = UnsecuredTokens({"unsecuredValidatorRequiredScope": "b a"})
    assert validator.validate(token.value.value, NOW_MS + 1) == ValidToken("alice", NOW_MS + 3_600_000)
    assert UnsecuredTokens({}).validate(made(sub="Zoë 😀"), NOW_MS).principal_name == "Zoë 😀"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", "form"),
        ("a.b.c.d", "form"),
        ("a.b!.", "form"),
        ("a.b.c", "base64url"),
        ("e30.W10.", "objects"),
        (encode({"alg": "HS256"}, {}), "signed"),
        (encode({}, {}), "signed"),
        (made() + "c2ln", "signed"),
        (made(exp=None), "exp is missing"),
        (made(exp="tomorrow"), "not a time"),
        (made(exp=True), "not a time"),
        (made(exp=float("inf")), "not a time"),
        (made(exp=float("nan")), "not a time"),
        (made(exp=NOW_MS / 1000), "expired"),
        (made(iat=NOW_MS / 1000 + 1), "not valid yet"),
        (made(iat="x"), "iat is missing or not a time"),
        (made(sub=None), "principal"),
        (made(sub=" "), "principal"),
        (made(sub=["alice"]), "principal"),
        (made(sub="alice\ud800"), "an unpaired surrogate"),
    ],
)
def test_tokens_that_are_refused(token: str, reason: str) -> None:
    with pytest.raises(RefusedToken, match=reason) as refused:
        UnsecuredTokens({}).validate(token, NOW_MS)
    assert (refused.value.status, refused.value.scope) == ("invalid_token", None)


def test_deeply_nested_json_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 10_000).decode().rstrip("=")
    with pytest.raises(RefusedToken, match="base64url"):
        parse(f"{deep}.e30.")


@pytest.mark.parametrize("scope", [None, "x y", "a b", ["a"], [1, "a"]])
def test_a_missing_scope_is_told(scope: object) -> None:
    """A string is a single scope, whatever spaces it contains."""
    validator = UnsecuredTokens({"unsecuredValidatorRequiredScope": "a b"})
    with pytest.raises(RefusedToken) as refused:
        validator.validate(made(scope=scope), NOW_MS)
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "[a, b]")


def test_claims_may_have_other_names_and_clocks_may_differ() -> None:
    validator = UnsecuredTokens(
        {"unsecuredValidatorPrincipalClaimName": "name", "unsecuredValidatorScopeClaimName": "rights",
         "unsecuredValidatorRequiredScope": "a", "unsecuredValidatorAllowableClockSkewMs": "1000"}
    )  # fmt: skip
    token = made(name="bob", rights="a", iat=NOW_MS / 1000 + 1)
    assert validator.validate(token, NOW_MS).principal_name == "bob"


@pytest.mark.parametrize("text", ["-1", "a", "1.5"])
def test_a_wrong_clock_skew_is_refused(text: str) -> None:
    with pytest.raises(InvalidSecurity, match="unsecuredValidatorAllowableClockSkewMs"):
        UnsecuredTokens({"unsecuredValidatorAllowableClockSkewMs": text})

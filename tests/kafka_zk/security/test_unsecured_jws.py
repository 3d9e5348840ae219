"""Unsecured tokens, made from JAAS options, and their claims."""

import pytest

from kafka_zk.security.unsecured_jws import InvalidToken, claims_of, unsecured_token

NOW_MS = 1_700_000_000_000


def test_a_token_says_what_the_jaas_options_say() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "123",
    }
    token = unsecured_token(options, NOW_MS)
    assert claims_of(token.value.value) == {
        "sub": "alice", "scope": ["a", "b"], "level": 3, "iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 60,
    }  # fmt: skip
    assert (token.expires_ms, token.extensions) == (NOW_MS + 60_000, {"traceId": "123"})
    assert token.value.value.endswith("."), "the signature is empty"


@pytest.mark.parametrize(
    "options", [{}, {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "x"},
                {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "x"}],
)  # fmt: skip
def test_options_that_make_no_token(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="unsecuredLogin"):
        unsecured_token(options, NOW_MS)


@pytest.mark.parametrize(
    ("token", "reason"), [("", "form"), ("a.b", "form"), ("a.b.c", "base64url"), ("e30.W10.", "objects")]
)
def test_what_is_no_token(token: str, reason: str) -> None:
    with pytest.raises(InvalidToken, match=reason):
        claims_of(token)

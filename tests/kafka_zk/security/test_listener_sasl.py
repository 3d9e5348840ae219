"""What verifies tokens and passwords at a listener, by its keys."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from joserfc.jwk import ECKey

from kafka_zk.security.errors import InvalidSecurity, SaslAuthenticationFailed
from kafka_zk.security.listener_keys import ListenerKeys
from kafka_zk.security.listener_sasl import JWKS_URL, JwksEndpoint, ListenerSasl, listener_sasl
from kafka_zk.security.signed_tokens import ExpectedClaims, SignedTokens
from kafka_zk.security.token_validation import RefusedToken, UnsecuredTokens, ValidToken

PACKAGE = "org.apache.kafka.common.security."
LISTENER = "listener.name.l."
CALLBACK = f"{LISTENER}oauthbearer.sasl.server.callback.handler.class"
BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{LISTENER}oauthbearer.sasl.jaas.config": f"{PACKAGE}oauthbearer.OAuthBearerLoginModule required a=b;",
}
SIGNED = {**BEARER, CALLBACK: f"{PACKAGE}oauthbearer.OAuthBearerValidatorCallbackHandler"}
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    f"{LISTENER}plain.sasl.jaas.config": f"{PACKAGE}plain.PlainLoginModule required where=ldap;",
}


class Passwords:
    def __init__(self, options: Mapping[str, str]) -> None:
        assert options == {"where": "ldap"}

    def authenticate(self, username: str, password: str) -> object:
        if username == "broken":
            raise KeyError(password)
        return {"right": True, "truthy": "yes"}.get(password)


class Tokens:
    def __init__(self, options: Mapping[str, str]) -> None:
        assert options == {"a": "b"}

    def validate(self, token: str) -> tuple[str, float]:
        if token == "bad":
            raise ValueError("the secret token")
        return ("" if token == "nobody" else "svc"), 2.5


class Broken:
    def __init__(self, options: Mapping[str, str]) -> None:
        raise ValueError(f"secret {options}")


def made(**keys: str) -> ListenerSasl:
    return listener_sasl(ListenerKeys(keys, "L"))


def refusal(**keys: str) -> str:
    with pytest.raises(InvalidSecurity) as refused:
        made(**keys)
    return str(refused.value)


def test_by_default_tokens_are_unsecured() -> None:
    default = f"{PACKAGE}oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    for more in ({}, {CALLBACK: default}):
        sasl = made(**BEARER, **more)
        assert isinstance(sasl.tokens, UnsecuredTokens) and sasl.jwks is None and not sasl.blocking


def test_keys_of_signed_tokens_do_not_go_with_unsecured_ones() -> None:
    """An operator who sets these keys expects tokens to be verified."""
    assert "without effect unless" in refusal(**BEARER, **{JWKS_URL: "https://login.example/keys"})


def test_signed_tokens_and_where_their_keys_are() -> None:
    keys = {
        JWKS_URL: "https://login.example/keys",
        f"{LISTENER}sasl.oauthbearer.expected.audience": "kafka, other",
        f"{LISTENER}oauthbearer.sasl.oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.sub.claim.name": "azp", "sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "7000",
    }  # fmt: skip
    sasl = made(**SIGNED, **keys)
    assert isinstance(sasl.tokens, SignedTokens)
    assert sasl.tokens._expected == ExpectedClaims(frozenset({"kafka", "other"}), "me", "azp", 5000)
    assert sasl.jwks == JwksEndpoint("https://login.example/keys", 7000, 100, 10_000)


def test_a_file_of_keys_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "keys of it.json"
    path.write_text(json.dumps({"keys": [ECKey.generate_key("P-256", {"kid": "k"}).as_dict(private=False)]}))
    sasl = made(**SIGNED, **{JWKS_URL: path.as_uri()})
    assert isinstance(sasl.tokens, SignedTokens) and sasl.jwks is None
    assert [key.key_id for key in sasl.tokens.keys] == ["k"]
    path.write_text("[]")
    assert "not a JSON web key set" in refusal(**SIGNED, **{JWKS_URL: path.as_uri()})
    assert "No such file" in refusal(**SIGNED, **{JWKS_URL: "file:///no/such/file"})


@pytest.mark.parametrize("url", ["", "http://login.example/keys", "https:///keys", "keys.json", "ftp://a/b"])
def test_keys_come_over_a_way_that_nobody_else_can_write(url: str) -> None:
    assert "over http, an attacker in the network could add a key" in refusal(**SIGNED, **{JWKS_URL: url})


def test_a_python_class_looks_at_tokens() -> None:
    sasl = made(**BEARER, **{CALLBACK: f"{__name__}:Tokens"})
    assert sasl.tokens is not None and sasl.blocking == {"OAUTHBEARER"}
    assert sasl.tokens.validate("x", 1000) == ValidToken("svc", 2500)
    for token, now_ms in (("bad", 1000), ("nobody", 1000), ("x", 2500)):
        with pytest.raises(RefusedToken) as refused:
            sasl.tokens.validate(token, now_ms)
        assert "secret" not in str(refused.value)


def test_a_python_class_looks_at_passwords() -> None:
    """Only the value True authenticates a client."""
    sasl = made(**PLAIN, **{f"{LISTENER}plain.sasl.server.callback.handler.class": f"{__name__}:Passwords"})
    check = sasl.check_password
    assert check is not None and sasl.blocking == {"PLAIN"}
    assert [check("a", password) for password in ("right", "truthy", "wrong")] == [True, False, False]


def test_a_python_class_that_fails_fails_the_login_and_tells_no_password() -> None:
    """Any other exception would close the connection immediately, so passwords could be tried quickly."""
    sasl = made(**PLAIN, **{f"{LISTENER}plain.sasl.server.callback.handler.class": f"{__name__}:Passwords"})
    assert sasl.check_password is not None
    with pytest.raises(SaslAuthenticationFailed) as failed:
        sasl.check_password("broken", "secret")
    assert str(failed.value) == "Authentication failed: credentials for user could not be verified"
    assert failed.value.reason == "the callback raises KeyError" and failed.value.__suppress_context__


@pytest.mark.parametrize(
    "name",
    ["org.example.Callback", f"{__name__}:Broken", f"{__name__}:Missing", "no.such.module:C", f"{__name__}:Passwords"],
)
def test_a_class_that_cannot_be_used_refuses_the_start(name: str) -> None:
    sentence = refusal(**BEARER, **{CALLBACK: name})
    assert sentence.startswith(f"{CALLBACK}={name}") and "secret" not in sentence


def test_scram_has_no_class_of_the_user() -> None:
    keys = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{LISTENER}scram-sha-256.sasl.jaas.config": f"{PACKAGE}scram.ScramLoginModule required;",
        f"{LISTENER}scram-sha-256.sasl.server.callback.handler.class": f"{__name__}:Passwords",
    }
    assert "for PLAIN and OAUTHBEARER" in refusal(**keys)


def test_without_cryptography_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka_zk.security.signed_tokens", None)
    assert "pip install" in refusal(**SIGNED, **{JWKS_URL: "https://login.example/keys"})

"""Tokens and keys created with joserfc, and the faults of invalid ones."""

import base64
import hmac
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from kafka_zk.security.signed_tokens import ExpectedClaims, InvalidKeys, SignedTokens, read_keys
from kafka_zk.security.token_validation import RefusedToken, ValidToken
from kafka_zk.security.unsecured_jws import encode

NOW_S = 1_700_000_000
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


@cache
def key(algorithm: str, key_id: str | None = "k1") -> Any:
    parameters: Any = {} if key_id is None else {"kid": key_id}
    if algorithm == "Ed25519":
        return OKPKey.generate_key("Ed25519", parameters)
    if algorithm in CURVES:
        return ECKey.generate_key(CURVES[algorithm], parameters)
    return RSAKey.generate_key(2048, parameters)


def document(*keys: Any) -> bytes:
    return json.dumps({"keys": [each.as_dict(private=False) for each in keys]}).encode()


def signed(signer: Any, algorithm: str = "RS256", header: Any = None, **claims: object) -> str:
    wanted = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, **claims}
    kept = {name: value for name, value in wanted.items() if value is not None}
    front = {"alg": algorithm, **({"kid": signer.kid} if signer.kid else {}), **(header or {})}
    return jwt.encode(front, kept, signer, algorithms=[*ALGORITHMS, "HS256"])


def validator(*keys: Any, **expected: Any) -> SignedTokens:
    made = SignedTokens(ExpectedClaims(**expected))
    made.keys = read_keys(document(*keys))
    return made


def refusal(made: SignedTokens, token: str, now_s: float = NOW_S) -> str:
    with pytest.raises(RefusedToken) as refused:
        made.validate(token, int(now_s * 1000))
    assert refused.value.status == "invalid_token"
    return str(refused.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_token_of_every_algorithm_is_verified(algorithm: str) -> None:
    signer, other = key(algorithm), key(algorithm, "k2")
    token = signed(signer, algorithm)
    assert validator(other, signer).validate(token, NOW_S * 1000) == ValidToken("alice", (NOW_S + 60) * 1000)
    forged = token[:-8] + ("AAAAAAAA" if token[-8:] != "AAAAAAAA" else "BBBBBBBB")
    assert "signature" in refusal(validator(signer), forged)
    assert "signature" in refusal(validator(signer), token.rpartition(".")[0] + ".")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "Ed25519"])
def test_the_key_that_a_token_names_must_be_its_own(algorithm: str) -> None:
    impostor = key(algorithm, "k2")
    token = signed(impostor, algorithm, {"kid": "k1"})
    assert "signature" in refusal(validator(key(algorithm), impostor), token)


def test_an_unknown_key_is_reported_once_for_each_token() -> None:
    """The report causes an early fetch of the keys."""
    made = validator(key("RS256"))
    missed: list[int] = []
    made.on_missed_key = lambda: missed.append(1)
    assert "no key" in refusal(made, signed(key("RS256", "k2")))
    assert missed == [1]


def test_a_token_without_a_key_id_needs_a_provider_with_one_key() -> None:
    signer = key("RS256", None)
    assert validator(signer, key("ES256")).validate(signed(signer), NOW_S * 1000).principal_name == "alice"
    assert "which key" in refusal(validator(signer, key("RS256")), signed(signer))


def test_an_algorithm_must_fit_the_key() -> None:
    rsa = key("RS256")
    only_512 = RSAKey.import_key({**rsa.as_dict(private=False), "alg": "RS512"})
    assert "no key of the provider matches the token's algorithm" in refusal(validator(only_512), signed(rsa))
    assert "no key" in refusal(validator(rsa), signed(key("ES256"), "ES256"))
    assert "no key" in refusal(validator(key("ES384")), signed(key("ES256"), "ES256"))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS1", "RS256 ", "", None, ["RS256"]])
def test_none_and_shared_secrets_are_refused(algorithm: Any) -> None:
    """One of the tokens is signed by HS256 with the public key as its secret."""
    token = encode({"alg": algorithm, "kid": "k1"}, {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60})
    assert "algorithm" in refusal(validator(key("RS256")), token)
    signature = hmac.digest(key("RS256").as_pem(private=False), token[:-1].encode(), "sha256")
    forged = token + base64.urlsafe_b64encode(signature).decode().rstrip("=")
    assert "algorithm" in refusal(validator(key("RS256")), forged)


def test_extensions_of_the_header_are_not_understood() -> None:
    token = encode({"alg": "RS256", "kid": "k1", "crit": ["b64"], "b64": False}, {})
    assert "extensions" in refusal(validator(key("RS256")), token)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp"), ({"iat": None}, "iat"), ({"exp": NOW_S - 31}, "expires before|expired"),
        ({"iat": NOW_S - 99, "exp": NOW_S - 30}, "expired"), ({"iat": NOW_S + 31}, "not valid yet"),
        ({"nbf": NOW_S + 31}, "not valid yet"), ({"sub": None}, "sub"), ({"sub": ""}, "sub"),
        ({"aud": "other"}, "audience"),
    ],
)  # fmt: skip
def test_claims_that_refuse_a_token(claims: dict[str, object], reason: str) -> None:
    """An audience is refused where none is expected, as in Kafka."""
    assert re.search(reason, refusal(validator(key("ES256")), signed(key("ES256"), "ES256", **claims)))


def test_clocks_may_differ_by_the_skew() -> None:
    token = signed(key("ES256"), "ES256", iat=NOW_S + 30, nbf=NOW_S + 30)
    made = validator(key("ES256"))
    assert made.validate(token, NOW_S * 1000).principal_name == "alice"
    assert made.validate(token, (NOW_S + 89) * 1000).principal_name == "alice"
    assert "expired" in refusal(made, token, NOW_S + 90)


def test_audience_issuer_and_the_name_of_the_subject() -> None:
    made = validator(
        key("ES256"), audience=frozenset({"kafka", "k2"}), issuer="https://login.example", principal_claim="azp"
    )

    def claims(**more: object) -> str:
        return signed(key("ES256"), "ES256", **{"aud": "kafka", "iss": "https://login.example", "azp": "svc", **more})

    for audience in ("kafka", ["x", "k2"]):
        assert made.validate(claims(aud=audience), NOW_S * 1000).principal_name == "svc"
    for wrong, reason in (({"aud": None}, "audience"), ({"aud": ["x", 1]}, "audience"), ({"iss": None}, "issuer"),
                          ({"iss": "https://login.example/"}, "issuer"), ({"azp": None}, "azp")):  # fmt: skip
        assert reason in refusal(made, claims(**wrong))


def test_keys_that_cannot_be_used_are_left_out() -> None:
    usable = key("ES256").as_dict(private=False)
    encryption = {**key("ES384").as_dict(private=False), "use": "enc"}
    small = {**key("RS256").as_dict(private=False), "n": "x" * 171}
    others: list[Any] = [
        encryption, small, {"kty": "oct", "k": "AAAA"}, {"kty": "EC", "crv": "P-256"}, {"kty": "RSA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {}, 7, None, {**usable, "kid": 5},
    ]  # fmt: skip
    found = read_keys(json.dumps({"keys": [*others, usable]}).encode())
    assert [each.key_id for each in found] == ["k1"]


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":' + b"[" * 9999, b'{"keys":[' + b"1," * 1000 + b"1]}"]
)
def test_what_is_no_key_set_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidKeys):
        read_keys(text)


def test_a_set_of_joserfc_is_read_whole() -> None:
    keys: Callable[..., Any] = KeySet
    made = keys([key(algorithm, algorithm) for algorithm in ALGORITHMS])
    found = read_keys(json.dumps(made.as_dict(private=False)).encode())
    assert [each.key_id for each in found] == list(ALGORITHMS)

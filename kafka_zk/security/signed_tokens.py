"""Verifies tokens with the OAuth provider's public keys. Pure, except for ``cryptography``.

``exp``, ``iat`` and the user's claim are required. As in Kafka, ``aud`` must contain an expected audience, or be
absent. The algorithm must match the key; ``none`` and shared secrets are rejected. This module is imported only for
``sasl.oauthbearer.jwks.endpoint.url``.

Source: RFC 7515, 7517, 7518, 8037, 9864; KIP-768; ValidatorAccessTokenValidator.java, ClaimValidationUtils.java@3.9.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from kafka_zk.security.token_validation import (
    RefusedToken,
    TokenValidator,
    ValidToken,
    check_times,
    parse,
    principal_name,
    time_ms,
)

MOST_KEYS = 1000
LEAST_RSA_BITS = 2048

_HASHES: Mapping[str, type[HashAlgorithm]] = {"256": SHA256, "384": SHA384, "512": SHA512}
_CURVES: Mapping[str, tuple[str, type[ec.EllipticCurve], int]] = {
    "ES256": ("P-256", ec.SECP256R1, 32),
    "ES384": ("P-384", ec.SECP384R1, 48),
    "ES512": ("P-521", ec.SECP521R1, 66),
}
"""Algorithm -> curve name, curve, bytes of each half of a signature."""

_ED25519 = ("EdDSA", "Ed25519")  # one algorithm (RFC 9864)
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class InvalidKeys(ValueError):
    """The document is not a JSON Web Key Set."""


class VerificationKey(NamedTuple):
    """``algorithm``: the only algorithm for which the key may be used; None for all algorithms of the key's type.
    ``curve``: set for the types EC and OKP.
    """

    key_id: str | None
    type: str
    curve: str | None
    algorithm: str | None
    key: Any


@dataclass(frozen=True, slots=True)
class ExpectedClaims:
    """The values of sasl.oauthbearer.expected.audience, .expected.issuer (None: any), .sub.claim.name and
    .clock.skew.seconds."""

    audience: frozenset[str] = frozenset()
    issuer: str | None = None
    principal_claim: str = "sub"
    skew_ms: int = 30_000


def read_keys(document: bytes) -> list[VerificationKey]:
    """Read the usable keys of a JSON Web Key Set. Raises InvalidKeys."""
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidKeys("it is not a JSON web key set") from None
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise InvalidKeys(f"its keys must be a list of at most {MOST_KEYS}")
    return [key for key in map(_read_key, listed) if key is not None]


def _read_key(jwk: Any) -> VerificationKey | None:
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig":
        return None
    try:
        key = _public_key(jwk)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    key_id, algorithm = jwk.get("kid"), jwk.get("alg")
    if key is None or not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    return VerificationKey(key_id, jwk["kty"], jwk.get("crv"), algorithm, key)


def _public_key(jwk: Mapping[str, Any]) -> Any:
    if jwk.get("kty") == "RSA":
        numbers = rsa.RSAPublicNumbers(_number(jwk["e"]), _number(jwk["n"]))
        return numbers.public_key() if numbers.n.bit_length() >= LEAST_RSA_BITS else None
    if jwk.get("kty") == "EC":
        curves = {name: curve for name, curve, _ in _CURVES.values()}
        return ec.EllipticCurvePublicNumbers(_number(jwk["x"]), _number(jwk["y"]), curves[jwk["crv"]]()).public_key()
    if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519":
        return ed25519.Ed25519PublicKey.from_public_bytes(_bytes(jwk["x"]))
    return None


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(text: str) -> int:
    return int.from_bytes(_bytes(text), "big")


def verify(key: VerificationKey, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """True if the key made ``signature``; ``algorithm`` must be of the key's type."""
    try:
        if algorithm in _ED25519:
            key.key.verify(signature, signed)
            return True
        hash_ = _HASHES[algorithm[2:]]()
        if algorithm[:2] == "ES":
            _, _, size_bytes = _CURVES[algorithm]
            if len(signature) != 2 * size_bytes:
                return False
            halves = (int.from_bytes(half, "big") for half in (signature[:size_bytes], signature[size_bytes:]))
            key.key.verify(utils.encode_dss_signature(*halves), signed, ec.ECDSA(hash_))
        elif algorithm[:2] == "PS":
            pad = padding.PSS(padding.MGF1(hash_), hash_.digest_size)
            key.key.verify(signature, signed, pad, hash_)
        else:
            key.key.verify(signature, signed, padding.PKCS1v15(), hash_)
    except InvalidSignature:
        return False
    return True


class SignedTokens(TokenValidator):
    """``keys``: replaced by each fetch. ``on_missed_key``: called when a token's key is unknown."""

    def __init__(self, expected: ExpectedClaims) -> None:
        self._expected = expected
        self.keys: list[VerificationKey] = []
        self.on_missed_key: Callable[[], object] = lambda: None

    def validate(self, token: str, now_ms: int) -> ValidToken:
        jws = parse(token)
        algorithm = jws.header.get("alg")
        if "crit" in jws.header:
            raise RefusedToken("the token's header has extensions that must be understood")
        key = self._key(algorithm, jws.header.get("kid"))
        if not verify(key, str(algorithm), jws.signed, jws.signature):
            raise RefusedToken("the token's signature is not that of its key")
        return self._valid(jws.claims, now_ms)

    def _key(self, algorithm: Any, key_id: Any) -> VerificationKey:
        if not isinstance(algorithm, str) or not _is_known(algorithm):
            raise RefusedToken("the token's algorithm is not one of RS, PS, ES (256, 384, 512) and EdDSA")
        fitting = [key for key in self.keys if _fits(key, algorithm)]
        if key_id is not None:
            fitting = [key for key in fitting if key.key_id == key_id]
        if not fitting:
            self.on_missed_key()
            raise RefusedToken("no key of the provider matches the token's algorithm and key id")
        if key_id is None and len(fitting) > 1:
            raise RefusedToken("the token does not say which key of the provider it is signed with")
        return fitting[0]

    def _valid(self, claims: Mapping[str, Any], now_ms: int) -> ValidToken:
        expected = self._expected
        issued_ms, expires_ms = time_ms(claims, "iat"), time_ms(claims, "exp")
        assert expires_ms is not None, "needed"
        check_times(issued_ms, expires_ms, now_ms, expected.skew_ms)
        not_before_ms = time_ms(claims, "nbf", needed=False)
        if not_before_ms is not None and not_before_ms > now_ms + expected.skew_ms:
            raise RefusedToken("the token is not valid yet")
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
        if (expected.audience or audience is not None) and not expected.audience.intersection(
            each for each in audiences if isinstance(each, str)
        ):
            raise RefusedToken("the token is for another audience")
        if expected.issuer is not None and claims.get("iss") != expected.issuer:
            raise RefusedToken("the token is of another issuer")
        return ValidToken(principal_name(claims, expected.principal_claim), expires_ms)


def _is_known(algorithm: str) -> bool:
    return algorithm in _ED25519 or (algorithm[:2] in ("RS", "PS", "ES") and algorithm[2:] in _HASHES)


def _fits(key: VerificationKey, algorithm: str) -> bool:
    if key.algorithm not in (None, algorithm) or key.type != _KEY_TYPES[algorithm[:2]]:
        return False
    return key.type != "EC" or key.curve == _CURVES[algorithm][0]

"""Tokens of callbacks and of an OAuth provider, which is a small HTTP server here."""

import base64
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.password import Password
from kafka_zk.security.token_sources import (
    ClientCredentials,
    TokenCallback,
    TokenUnavailable,
    UnsecuredTokens,
    current_token,
)
from kafka_zk.security.unsecured_jws import encode

NOW_MS = 1_700_000_000_000
JWT = encode({"alg": "none"}, {"sub": "me", "exp": NOW_MS / 1000 + 60})


@dataclass
class Provider:
    """The server's response, and the requests that it received."""

    url: str = ""
    status: int = 200
    body: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)


@pytest.fixture
def provider() -> Iterator[Provider]:
    found = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found.asked.append((self.headers["Authorization"], form))
            self.send_response(found.status)
            if found.status == 302:
                self.send_header("Location", found.url.replace("127.0.0.1", "localhost"))
            self.end_headers()
            self.wfile.write(found.body.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}/token"
    yield found
    server.shutdown()
    server.server_close()


def client(provider: Provider) -> ClientCredentials:
    return ClientCredentials(provider.url, "me", Password("s3cret"), "a b", (("k", "v"),))


def test_a_provider_gives_a_token_for_id_and_secret(provider: Provider) -> None:
    provider.body = f'{{"access_token": "{JWT}", "expires_in": 5}}'
    token = client(provider).fetch(NOW_MS)
    assert (token.value.value, token.expires_ms, token.extensions) == (JWT, NOW_MS + 60_000, {"k": "v"})
    basic = "Basic " + base64.b64encode(b"me:s3cret").decode()
    assert provider.asked == [(basic, "grant_type=client_credentials&scope=a+b")]


def test_an_opaque_token_lives_as_long_as_the_provider_says(provider: Provider) -> None:
    provider.body = '{"access_token": "opaque", "expires_in": 5}'
    assert client(provider).fetch(NOW_MS).expires_ms == NOW_MS + 5_000


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, "{}", SaslAuthenticationFailed),
        (503, "{}", TokenUnavailable),
        (302, "{}", SaslAuthenticationFailed),
        (200, "<html>", SaslAuthenticationFailed),
        (200, "[]", SaslAuthenticationFailed),
        (200, "{}", SaslAuthenticationFailed),
        (200, '{"access_token": "opaque"}', SaslAuthenticationFailed),
    ],
)
def test_other_answers_say_whether_to_try_again(
    provider: Provider, status: int, body: str, error: type[Exception]
) -> None:
    provider.status, provider.body = status, body
    with pytest.raises(error) as refused:
        client(provider).fetch(NOW_MS)
    assert "s3cret" not in str(refused.value)
    assert len(provider.asked) == 1


def test_nobody_at_the_endpoint_may_be_somebody_later() -> None:
    with pytest.raises(TokenUnavailable):
        ClientCredentials("http://127.0.0.1:1/", "me", Password("s3cret")).fetch(NOW_MS)


def test_a_provider_is_asked_once_for_all_connections(provider: Provider) -> None:
    provider.body = '{"access_token": "opaque", "expires_in": 3600}'
    assert [current_token(client(provider)).value.value for _ in range(3)] == ["opaque"] * 3
    assert len(provider.asked) == 1


def test_a_token_that_expires_soon_is_fetched_again(provider: Provider) -> None:
    provider.body = '{"access_token": "opaque", "expires_in": 0}'
    current_token(client(provider))
    current_token(client(provider))
    assert len(provider.asked) == 2


def signer(config: str) -> tuple[str, float, str, dict[str, str]]:
    """A callback like confluent-kafka's ``oauth_cb``."""
    return f"signed.{config}", NOW_MS / 1000 + 900, "", {"k": "v"}


@pytest.mark.parametrize("function", [signer, f"{__name__}:signer"])
def test_a_callback_signs_a_token_itself(function: Any) -> None:
    token = TokenCallback(function, Password("eu-west-1")).fetch(NOW_MS)
    assert (token.value.value, token.expires_ms) == ("signed.eu-west-1", NOW_MS + 900_000)
    assert token.extensions == {"k": "v"}


@pytest.mark.parametrize("function", ["no_such_module:f", f"{__name__}:nothing", f"{__name__}:NOW_MS", str,
                                      lambda config: (1, 2)])  # fmt: skip
def test_a_callback_that_is_none_says_so(function: Any) -> None:
    with pytest.raises(SaslAuthenticationFailed, match="callback"):
        TokenCallback(function).fetch(NOW_MS)


def test_an_unsecured_token() -> None:
    assert UnsecuredTokens((("unsecuredLoginStringClaim_sub", "alice"),)).fetch(NOW_MS).expires_ms == NOW_MS + 3_600_000

"""How often the keys of an OAuth provider are fetched, on a clock that the test moves."""

import json
from collections.abc import Callable
from http.client import BadStatusLine, IncompleteRead
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.jwk import ECKey
from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed

from kafka_zk.broker.security import token_keys
from kafka_zk.broker.security.token_keys import MISSED_KEY_INTERVAL_S, TokenKeys
from kafka_zk.security.listener_sasl import JwksEndpoint
from kafka_zk.security.signed_tokens import ExpectedClaims, SignedTokens
from tests.kafka_zk.broker.conftest import HandClock


class Provider:
    """``answers`` are the provider's responses in order; the last one repeats."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str | Exception) -> None:
        self.clock = HandClock()
        self.answers = list(answers)
        self.asked_s: list[float] = []
        self.tokens = SignedTokens(ExpectedClaims())
        endpoint = JwksEndpoint("https://login.example/keys", 60_000, 1000, 3000)
        self.keys = TokenKeys(endpoint, self.tokens, self.clock, self.run)
        monkeypatch.setattr(token_keys, "fetch", self.fetch)

    def run(self, work: Callable[[], Any]) -> "Deferred[Any]":
        try:
            return succeed(work())
        except Exception as error:
            return fail(error)

    def fetch(self, request: Any, tls: Any) -> bytes:
        self.asked_s.append(self.clock.seconds())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer.encode()

    @property
    def key_ids(self) -> list[str | None]:
        return [key.key_id for key in self.tokens.keys]

    def start(self) -> None:
        ensureDeferred(self.keys.start())

    def pass_seconds(self, count: int) -> None:
        self.clock.pump([1.0] * count)


def keys(*key_ids: str) -> str:
    return json.dumps({"keys": [ECKey.generate_key("P-256", {"kid": each}).as_dict(private=False) for each in key_ids]})


def test_keys_are_fetched_again_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, keys("a"), keys("b", "c"))
    provider.start()
    assert provider.key_ids == ["a"]
    provider.pass_seconds(60)
    assert provider.key_ids == ["b", "c"] and provider.asked_s == [0, 60]


def test_without_an_answer_the_known_keys_stay_and_it_tries_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[str | Exception] = [OSError("no route"), ValueError("too long"), "[]", OSError("no route")]
    provider = Provider(monkeypatch, keys("a"), *wrong, keys("b"))
    provider.start()
    provider.pass_seconds(60)
    assert provider.key_ids == ["a"]
    provider.pass_seconds(9)
    assert provider.key_ids == ["b"] and provider.asked_s == [0, 60, 61, 63, 66, 69]
    provider.pass_seconds(60)
    assert provider.asked_s[-1] == 129


@pytest.mark.parametrize("wrong", [IncompleteRead(b"{"), BadStatusLine("SSH-2.0"), UnsupportedAlgorithm("no Ed25519")])
def test_whatever_goes_wrong_the_keys_are_fetched_again(monkeypatch: pytest.MonkeyPatch, wrong: Exception) -> None:
    """If fetching stopped, keys that the provider withdraws would remain valid."""
    provider = Provider(monkeypatch, keys("a"), wrong, keys("b"))
    provider.start()
    provider.pass_seconds(61)
    assert provider.key_ids == ["b"]


def test_a_provider_that_does_not_answer_at_the_start_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, OSError("down"), keys("a"))
    provider.start()
    assert provider.key_ids == []
    provider.pass_seconds(1)
    assert provider.key_ids == ["a"]


def test_an_unknown_key_fetches_earlier_but_not_for_every_token(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, keys("a"))
    provider.start()
    provider.tokens.on_missed_key()
    provider.pass_seconds(int(MISSED_KEY_INTERVAL_S))
    assert provider.asked_s == [0]
    provider.tokens.on_missed_key()
    provider.tokens.on_missed_key()
    assert provider.asked_s == [0, 10]
    provider.pass_seconds(60)
    assert provider.asked_s == [0, 10, 70]


def test_nothing_is_fetched_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch, keys("a"))
    provider.start()
    provider.keys.close()
    provider.pass_seconds(100)
    assert provider.asked_s == [0] and provider.clock.getDelayedCalls() == []

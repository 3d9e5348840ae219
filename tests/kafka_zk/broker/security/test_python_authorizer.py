"""Python classes as authorizers: only the value True allows."""

import sys
import types
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.broker.security.authorizer import Operation, Resource, topic
from kafka_zk.broker.security.denials import Denials
from kafka_zk.broker.security.python_authorizer import CannotLoad, PythonAuthorizer, load
from kafka_zk.protocol.request import RequestContext

ALICE = RequestContext("PLAINTEXT", "PLAINTEXT", "User:alice", "127.0.0.1", 1, "test")


class Says:
    """An authorizer that returns the same value for every request."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class SaysToAny(Says):
    def authorize_any(self, context: RequestContext, operation: Operation, resource_type: str) -> Any:
        return self._answer


@pytest.mark.parametrize("answer", [False, None, 1, "yes", LookupError("x")])
def test_whatever_is_not_true_denies(answer: Any) -> None:
    """A coroutine is not True either."""
    authorizer = PythonAuthorizer(SaysToAny(answer), Denials(Clock()))
    assert not authorizer.may(ALICE, Operation.READ, topic("t"))
    assert not authorizer.may_any(ALICE, Operation.READ, "Topic")
    assert authorizer.denials.count == 0
    assert not authorizer.authorize(ALICE, Operation.READ, topic("t"))
    assert authorizer.denials.count == 1


def test_true_allows() -> None:
    authorizer = PythonAuthorizer(SaysToAny(True), Denials(Clock()))
    assert authorizer.authorize(ALICE, Operation.READ, topic("t"))
    assert authorizer.may_any(ALICE, Operation.READ, "Topic")
    without = PythonAuthorizer(Says(True), Denials(Clock()))
    assert not without.may_any(ALICE, Operation.READ, "Topic"), "the class does not define may_any"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:Class", "No module named"),
        ("rules_of_test:Missing", "AttributeError"),
        ("rules_of_test:Fails", "KeyError: 'key'"),
        ("rules_of_test:Nothing", "no method authorize"),
    ],
)
def test_a_class_that_cannot_be_used_is_told_in_one_sentence(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("rules_of_test")

    def fails(properties: dict[str, str]) -> None:
        raise KeyError("key")

    vars(module).update(Fails=fails, Nothing=lambda properties: None, Good=lambda properties: Says(properties["a"]))
    monkeypatch.setitem(sys.modules, "rules_of_test", module)
    with pytest.raises(CannotLoad, match=said) as refused:
        load(name, {}, Denials(Clock()))
    assert str(refused.value).startswith(f"authorizer.class.name={name}: ") and "\n" not in str(refused.value)
    assert not load("rules_of_test:Good", {"a": "b"}, Denials(Clock())).may(ALICE, Operation.READ, topic("t"))

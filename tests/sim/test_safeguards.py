"""Every safeguard can still be removed: the replaced function exists, and is called as the replacement expects."""

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FunctionType
from typing import Any

import pytest

from kafka_zk.sim.scenarios import old_rules
from tests.rebalance import test_safeguards as of_groups
from tests.sim import replication_safeguards, safeguards, transaction_safeguards
from tests.sim.authorization import acl_safeguards
from tests.sim.extraction import extraction_safeguards

MODULES = (
    safeguards, replication_safeguards, transaction_safeguards, extraction_safeguards, acl_safeguards, of_groups,
    old_rules,
)  # fmt: skip


def taking_out() -> list[Any]:
    """All functions of these modules that take a patch and nothing else."""
    return [
        pytest.param(each, id=f"{module.__name__.rpartition('.')[2]}-{name}")
        for module in MODULES
        for name, each in vars(module).items()
        if isinstance(each, FunctionType)
        and each.__module__ == module.__name__
        and list(inspect.signature(each).parameters) == ["patch"]
    ]


class Patch:
    """A ``MonkeyPatch`` that notes replacements that cannot be called like the functions they replace."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.count = 0
        self.misfits: list[str] = []

    def setattr(self, owner: Any, *more: Any) -> None:
        if isinstance(owner, str):
            path, _, name = owner.rpartition(".")
            owner, more = import_module(path), (name, *more)
        name, value = more
        before = inspect.getattr_static(owner, name)
        self._patch.setattr(owner, name, value)
        self.count += 1
        if isinstance(before, FunctionType) and not takes_what(value, before):
            self.misfits.append(f"{name}{inspect.signature(before)} was replaced by {inspect.signature(value)}")


def takes_what(value: Callable[..., Any], before: Callable[..., Any]) -> bool:
    """Whether ``value`` can be called with all arguments of ``before``, and with only those that have no default."""
    parameters = inspect.signature(before).parameters.values()
    needed = [each for each in parameters if each.default is each.empty]
    return all(_can_be_called(value, given) for given in (parameters, needed))


def _can_be_called(value: Callable[..., Any], given: Iterable[inspect.Parameter]) -> bool:
    by_place = [each.name for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_name = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
    try:
        inspect.signature(value).bind(*by_place, **by_name)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("take_out", taking_out())
def test_a_safeguard_can_be_taken_out(take_out: Callable[[Any], None]) -> None:
    with pytest.MonkeyPatch.context() as context:
        patch = Patch(context)
        take_out(patch)
    assert patch.count
    assert not patch.misfits


def test_a_replacement_that_expects_other_arguments_is_noticed() -> None:
    assert takes_what(lambda self, *more: None, lambda self, tp, offset=0: None)
    assert not takes_what(lambda self, tp: None, lambda self, tp, offset=0: None)
    assert not takes_what(lambda self, tp, offset: None, lambda self, tp, offset=0: None)

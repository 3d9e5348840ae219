"""The judge of the schedules can fail: each test removes one safeguard from the source, and some seed must detect it.
"""

import inspect

import pytest

from kafka_zk.broker.transaction import states as states_module
from kafka_zk.broker.transaction import transaction as transaction_module
from tests.changed_source import compiled
from tests.kafka_zk.broker.transaction.test_schedules import storm
from tests.kafka_zk.broker.transaction.world import World

pytestmark = pytest.mark.slow

SEEDS = 600

SAFEGUARDS = {
    "one change is under way at a time": (
        "return _CONCURRENT if refusal is None and self.pending is not None else refusal",
        "return refusal",
    ),
    "a producer with an old epoch is fenced": (
        "if producer.producer_epoch != self.metadata.producer_epoch:",
        "if False:",
    ),
    "fencing takes the next epoch": (
        "producer_epoch=min(self.metadata.producer_epoch, LAST_EPOCH) + 1,",
        "producer_epoch=self.metadata.producer_epoch,",
    ),
    "a new producer takes the next epoch": (
        "return epoch + 1, NO_PRODUCER_EPOCH",
        "return max(epoch, 0), NO_PRODUCER_EPOCH",
    ),
    "a fenced producer does not come back by asking for the next epoch": (
        "if epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):",
        "if True:",
    ),
    "an open transaction is aborted before the next producer begins": (
        "_S.ONGOING: _S.PREPARE_EPOCH_FENCE,\n        _S.PREPARE_COMMIT: _RETRY",
        "_S.ONGOING: _S.EMPTY,\n        _S.PREPARE_COMMIT: _RETRY",
    ),
    "partitions stay in the transaction when others come": (
        "metadata.changed(target, metadata.tps | tps, ",
        "metadata.changed(target, tps, ",
    ),
    "a transaction is complete when all partitions have their marker": (
        "return [] if left else self._completed()",
        "return self._completed()",
    ),
    "a new coordinator ends what was being ended": (
        "return self._complete(now_ms) if self.metadata.state in _PREPARED else []",
        "return []",
    ),
    "the end of a transaction is appended again": (
        "return [Append(pending, is_retry=True)]",
        "return []",
    ),
    "what is not in the log has not happened": (
        "            return _answer(reply, error)\n        self.metadata = pending",
        "            pass\n        self.metadata = pending",
    ),
    "who may write is verified": (
        "if added.issuperset(tps):",
        "if True:",
    ),
    "a transaction without a producer times out": (
        "return is_open and metadata.start_ms + metadata.timeout_ms < now_ms",
        "return False",
    ),
    "what was ended before is confirmed in the log": (
        "if target is _NONE:",
        "if False:",
    ),
}

FOUND_BY = {
    "who may write is verified": 57,
    "a transaction without a producer times out": 16,
    "what was ended before is confirmed in the log": 593,
}
"""Seeds that are tried first: the removal of these safeguards is detected by few seeds, such as this one."""


def without(safeguard: str, patch: pytest.MonkeyPatch) -> None:
    """Run the schedules on the source without this safeguard."""
    text, replacement = SAFEGUARDS[safeguard]
    sources = {module: inspect.getsource(module) for module in (states_module, transaction_module)}
    assert sum(source.count(text) for source in sources.values()) == 1, f"the source has no single {text!r}"
    if text in sources[states_module]:
        changed = compiled(states_module, sources[states_module].replace(text, replacement))
        by_name = {event.name: event for event in states_module.Event}
        states = {state.name: state for state in states_module.TransactionState}

        def known(target: object) -> object:
            return states.get(getattr(target, "name", ""), target)

        table = {
            by_name[event.name]: {states[before.name]: known(after) for before, after in changes.items()}
            for event, changes in changed.TRANSITIONS.items()
        }
        patch.setattr(transaction_module, "TRANSITIONS", table)
    else:
        module = compiled(transaction_module, sources[transaction_module].replace(text, replacement))
        patch.setattr(World, "new_transaction", staticmethod(module.Transaction.new))
        patch.setattr(World, "transaction_of", staticmethod(module.Transaction))


@pytest.mark.parametrize("safeguard", list(SAFEGUARDS))
def test_without_a_safeguard_some_seed_fails(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without(safeguard, monkeypatch)
    for seed in (FOUND_BY.get(safeguard, 0), *range(SEEDS)):
        world = World(seed)
        try:
            storm(world)
        except AssertionError:
            return
        if world.faults():
            return
    pytest.fail(f"{SEEDS} seeds do not show that it is missing")

"""Compares the same change under each strategy."""

from collections.abc import Iterator

from kafka_zk.sim.strategies.measured import measured
from kafka_zk.sim.strategies.members import STRATEGIES
from kafka_zk.sim.strategies.play import Change, play
from kafka_zk.sim.strategies.told import Row


def rows(change: Change) -> Iterator[Row]:
    """Yield the rows one after another; each takes about a second."""
    for strategy in STRATEGIES:
        yield Row(strategy, measured(play(change, strategy)))

"""Plays seeds without a safeguard until a judge notices: the command of the modules of safeguards.

``python -m MODULE NAME --seeds A-B``. Exit code 0 if a judge noticed.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from twisted.logger import globalLogBeginner

from kafka_zk.sim.campaign.run import Outcome

TakeOut = Callable[[pytest.MonkeyPatch], None]
Play = Callable[..., Outcome]
"""Plays a run with a seed. ``kinds``: the faults that the seed may draw."""


def play_without(take_out: TakeOut, play: Play, seed: int) -> Outcome:
    """A run without a safeguard."""
    with pytest.MonkeyPatch.context() as patch:
        take_out(patch)
        return play(seed)


def find(module: str, safeguards: Mapping[str, TakeOut], play: Play, seeds: str) -> int:
    """The command. ``seeds``: the default of --seeds. Returns the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=__doc__)
    parser.add_argument("name", choices=sorted(safeguards))
    parser.add_argument("--seeds", metavar="A-B", default=seeds)
    parser.add_argument("--faults", metavar="KIND,…", help="only these")
    options = parser.parse_args()
    if options.faults:
        play = partial(play, kinds=options.faults.split(","))
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)
    first, _, last = options.seeds.partition("-")
    for count, seed in enumerate(range(int(first), int(last or first) + 1), 1):
        outcome = play_without(safeguards[options.name], play, seed)
        if outcome.violations:
            violation = outcome.violations[0].splitlines()[0][:200]
            print(f"without {options.name}: found by seed {seed} after {count} seeds: {violation}", flush=True)
            return 0
    print(f"without {options.name}: not found in {count} seeds", flush=True)
    return 1

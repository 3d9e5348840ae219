"""Run the simulated world: python -m tests.sim --seed 7, or --seeds 0-999 on all cores.

Exit code 1 if a judge found something. A failing ``--seed`` is played again with fewer and shorter faults, until every
remaining fault is needed. These are printed as a scenario, which ``kafka-zk replay FILE`` plays. Seeds that were played
with ``--seeds`` and all kinds of faults are counted: ``python -m tests.sim.played``.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from twisted.logger import globalLogBeginner

from kafka_zk.sim.campaign.faults import DRAWN, KINDS
from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import Outcome, play
from kafka_zk.sim.scenarios.old_rules import OLD_RULES
from tests.sim import played
from tests.sim.authorization.acls import ACL_FAULTS, play_acls
from tests.sim.extraction.drivers import EXTRACTION_FAULTS, play_extraction
from tests.sim.replicated import REPLICATION_FAULTS, play_replicated
from tests.sim.safeguards import SAFEGUARDS
from tests.sim.shrink import as_scenario, shrunk
from tests.sim.tiers.tiered import TIER_FAULTS, play_tiered
from tests.sim.transactional import play_transactional

SINGLE = "seeds of partitions of one replica"
REPLICATED = "seeds of replicated partitions"
TRANSACTIONAL = "seeds of transactions"
EXTRACTION = "seeds of extractions"
ACLS = "seeds of ACLs"
TIERED = "seeds of tiered topics"
Play = Callable[[int], Outcome]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    globalLogBeginner.beginLoggingTo([], discardBuffer=True, redirectStandardIO=False)  # worlds observe it
    kinds = tuple(options.faults.split(",")) if options.faults else DRAWN
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        print(f"Error: {unknown[0]} is not a fault; there are: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    if options.seeds:
        first, _, last = options.seeds.partition("-")
        seeds = range(int(first), int(last or first) + 1)
        if options.without:
            return _search(options.without, seeds, kinds, shrink=options.shrink)
        played_by, world = _world(options, kinds)
        return _many(seeds, kinds, played_by, options.workers, world)
    plan = None
    if options.plan:
        lines = Path(options.plan).read_text().splitlines()
        plan = [Fault.parse(line) for line in lines if line.strip() and not line.startswith("#")]
    played_by, world = _world(options, kinds, plan)
    outcome = played_by(options.seed)
    if options.verbose:
        print(*outcome.history.facts, sep="\n")
    print(_told(outcome))
    if outcome.violations and plan is None and world == SINGLE:
        print(smallest(outcome, kinds))
    return 1 if outcome.violations else 0


def _world(
    options: argparse.Namespace, kinds: tuple[str, ...], plan: Sequence[Fault] | None = None
) -> tuple[Play, str]:
    """The function that plays a seed, and its name in the record of played seeds."""
    if options.extraction:
        return partial(play_extraction, plan=plan, kinds=kinds if options.faults else EXTRACTION_FAULTS), EXTRACTION
    if options.acls:
        return partial(play_acls, plan=plan, kinds=kinds if options.faults else ACL_FAULTS), ACLS
    if options.tiered:
        return partial(play_tiered, plan=plan, kinds=kinds if options.faults else TIER_FAULTS), TIERED
    drawn = kinds if options.faults else REPLICATION_FAULTS
    if options.transactional:
        return partial(play_transactional, plan=plan, kinds=drawn), TRANSACTIONAL
    if options.replicated:
        return partial(play_replicated, plan=plan, kinds=drawn), REPLICATED
    return partial(play, plan=plan, kinds=kinds), SINGLE


def _told(outcome: Outcome) -> str:
    head = (
        f"seed {outcome.seed}: {outcome.simulated_ms / 1000:.0f} s, {len(outcome.plan)} faults,"
        f" {outcome.operations} operations, digest {outcome.history.digest()},"
        f" {len(outcome.violations)} violations"
    )
    return "\n  ".join([head, *outcome.violations[:20]])


def smallest(outcome: Outcome, kinds: Sequence[str], without: str | None = None) -> str:
    """The smallest run that still fails, as a scenario for ``kafka-zk replay``."""
    smaller = shrunk(outcome, lambda plan: _played_without(without, outcome.seed, plan, kinds))
    found = smaller.violations[0].strip().splitlines()[0]
    rule = without if without in OLD_RULES else None
    return as_scenario(outcome.seed, smaller.plan, rule, found)


def _many(seeds: range, kinds: tuple[str, ...], played_by: Play, workers: int | None, world: str) -> int:
    begun_s = time.monotonic()
    failed = []
    for seed, violations in _played(seeds, played_by, workers):
        if violations is not None:
            failed.append(seed)
            print(violations)
        if kinds == DRAWN:
            played.record(world, seed, seed, int(violations is not None))
    spent_s = time.monotonic() - begun_s
    print(f"{len(seeds)} seeds in {spent_s:.0f} s, {len(failed)} failed{': ' if failed else ''}{_listed(failed)}")
    return 1 if failed else 0


def _search(name: str, seeds: range, kinds: tuple[str, ...], *, shrink: bool) -> int:
    """Play seeds without the safeguard. Returns exit code 0 if a judge notices."""
    if name not in SAFEGUARDS:
        print(f"Error: {name} is no safeguard; there are: {', '.join(SAFEGUARDS)}", file=sys.stderr)
        return 2
    for count, seed in enumerate(seeds, 1):
        outcome = play_without(name, seed, kinds)
        if outcome.violations:
            print(f"without {name}: found by seed {seed} after {count} seeds: {outcome.violations[0].splitlines()[0]}")
            if shrink:
                print(smallest(outcome, kinds, name))
            return 0
    print(f"without {name}: not found in {len(seeds)} seeds")
    return 1


def play_without(name: str, seed: int, kinds: Sequence[str] = DRAWN) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    return _played_without(name, seed, None, kinds)


def _played_without(name: str | None, seed: int, plan: Sequence[Fault] | None, kinds: Sequence[str]) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        if name is not None:
            SAFEGUARDS[name](patch)
        return play(seed, plan, kinds)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds)


def _played(seeds: range, played_by: Play, workers: int | None) -> Iterator[tuple[int, str | None]]:
    """Each seed, and the report if it failed. A whole history is too long to be sent between processes."""
    with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
        yield from zip(seeds, pool.map(partial(_violations, played_by), seeds), strict=True)


def _violations(played_by: Play, seed: int) -> str | None:
    outcome = played_by(seed)
    return _told(outcome) if outcome.violations else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="play this one")
    parser.add_argument("--seeds", metavar="A-B", help="play many, on all cores")
    parser.add_argument("--replicated", action="store_true", help="the world of replicated partitions")
    parser.add_argument("--transactional", action="store_true", help="the world of transactions")
    parser.add_argument("--tiered", action="store_true", help="the world of tiered topics over an object store")
    parser.add_argument("--extraction", action="store_true", help="the world of drivers that extract")
    parser.add_argument("--acls", action="store_true", help="the world of ACLs that change")
    parser.add_argument("--workers", type=int, metavar="N", help="with --seeds: processes (default: one per core)")
    parser.add_argument("--faults", metavar="KIND,…", help=f"only these: {', '.join(KINDS)}")
    parser.add_argument("--plan", metavar="FILE", help="play these faults, a line each, instead of the seed's own")
    named = ", ".join(SAFEGUARDS)
    parser.add_argument("--without", metavar="SAFEGUARD", help=f"with --seeds: play until it is missed: {named}")
    parser.add_argument("--shrink", action="store_true", help="with --without: print the smallest run that misses it")
    parser.add_argument("--verbose", action="store_true", help="print the whole history")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The power fails while ``kafka-zk extract`` copies a flushed topic into a folder on the same disk: after the next runs
each record is in the folder exactly once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.integration.processes import COMMAND, ENVIRON
from tests.integration.spark.sessions import LOCAL, SMALL
from tests.power import evidence, judges, servers
from tests.power.disks import Pool
from tests.power.history import History, Mark, Topic
from tests.power.host import BROKER_ID, Host
from tests.power.judges import Violation
from tests.power.paused_extraction import PREFIX
from tests.power.single import Cut
from tests.power.topics import FLUSHED
from tests.power.upheavals import create
from tests.power.verdict import Verdict
from tests.power.workload import Workload

TOPIC = Topic("extracted", durable=True, config=FLUSHED)
_ENVIRON = {**ENVIRON, **LOCAL}
_RUN_UP_S = 2
_CHANCE = 0.4
"""The probability of a cut at each point of the protocol."""
_RUN_TIMEOUT_S = 400
_RUNS_AFTER = 2
"""The number of runs after a cut; the first may only finish the interrupted run."""


class Extraction:
    """The run of one seed on one file system. The power fails at points of the extraction's protocol, run after run."""

    def __init__(self, pool: Pool, filesystem: str, kind: str, seed: int) -> None:
        self._name = f"{filesystem} extraction {kind} seed {seed}"
        self._random = random.Random(seed)
        self._seed = seed
        self._host = Host(pool, f"extraction-{seed}", filesystem, kind, self._random, flushes=True)
        self._cut_at: list[str] = []
        self._lake = self._host.machine.volumes[1] / "lake"

    def play(self, cuts: int) -> Iterator[Verdict]:
        """Write and extract, cut the power ``cuts`` times at random points, then judge each cut."""
        for number, cut in enumerate(self._run(cuts)):
            started_s = time.monotonic()
            violations = self._judge(cut)
            yield Verdict(
                f"{self._name} cut {number} at {self._cut_at[number]}", time.monotonic() - started_s, violations
            )
            cut.image.delete()

    def _run(self, cuts: int) -> list[Cut]:
        taken: list[Cut] = []
        with self._host.running() as broker, servers.admin(broker.bootstrap) as client:
            create(client, [TOPIC], [[BROKER_ID]])
            workload = Workload(broker.bootstrap, [TOPIC], self._seed)
            workload.start()
            time.sleep(_RUN_UP_S)
            while len(taken) < cuts:
                for point in self._points():
                    if len(taken) < cuts and self._random.random() < _CHANCE:
                        mark = workload.history.mark()
                        image = self._host.machine.cut(f"cut-{self._seed}-{len(taken)}")
                        taken.append(Cut(image, mark))
                        self._cut_at.append(point)
                workload.check()
            workload.end()
        self._history = workload.history
        return taken

    def _points(self) -> Iterator[str]:
        """The points of one run, which waits while the caller handles one."""
        command = [sys.executable, "-m", "tests.power.paused_extraction", *self._arguments]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_ENVIRON
        ) as process:
            assert process.stdin and process.stdout
            try:
                for line in process.stdout:
                    if line.startswith(PREFIX):
                        yield line.removeprefix(PREFIX).strip()
                        process.stdin.write("\n")
                        process.stdin.flush()
            finally:
                process.kill()

    @property
    def _arguments(self) -> list[str]:
        arguments = [
            "--zookeeper", self._host.zookeeper_connect, "--group", "extraction", "--topic", TOPIC.name,
            "--to", str(self._lake), "--format", "json", "--decode", "string", "--json", "--master", "local[1]",
        ]  # fmt: skip
        return arguments + [f"--conf={name}={value}" for name, value in SMALL.items()]

    def _extract(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "extract", *self._arguments], env=_ENVIRON, capture_output=True, text=True, check=False,
            timeout=_RUN_TIMEOUT_S,
        )  # fmt: skip

    def _judge(self, cut: Cut) -> list[Violation]:
        try:
            with self._host.running(cut.image) as broker:
                servers.wait_for_leaders(broker, [TOPIC.name])
                for _ in range(_RUNS_AFTER):
                    done = self._extract()
                    if done.returncode:
                        return [Violation(judges.EXTRACTION, TOPIC.name, f"the next run fails: {done.stderr[-500:]}")]
                found = faults(self._history, cut.mark, lake(self._lake))
                return [Violation(judges.EXTRACTION, TOPIC.name, each) for each in found]
        except servers.NotServing as error:
            return [Violation(judges.START, "-", evidence.text_of(error))]


def lake(folder: Path) -> list[tuple[int, str | None]]:
    """Offset and value of each record of a folder."""
    found = []
    for path in sorted(folder.glob("range=*/part-*.json")):
        for line in path.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            found.append((record["offset"], record.get("value")))
    return found


def faults(history: History, mark: Mark, found: Sequence[tuple[int, str | None]]) -> Iterator[str]:
    """The faults of the lake: a record that was acknowledged before the cut is missing, a record is there twice, or was
    not produced.
    """
    counts = Counter(offset for offset, _ in found)
    if missing := [each.offset for each in history.before(TOPIC.name, mark) if each.offset not in counts]:
        yield f"{len(missing)} acknowledged records are missing, first {min(missing)}, last {max(missing)}"
    if twice := sorted(offset for offset, count in counts.items() if count > 1):
        yield f"{len(twice)} records are there twice, first {twice[0]}"
    written = {each.offset: each.record.value for each in history.acknowledged[TOPIC.name]}
    other = [
        offset for offset, value in found if offset in written and (value or "").encode() != (written[offset] or b"")
    ]
    if other:
        yield f"{len(other)} records differ from those produced, first {min(other)}"

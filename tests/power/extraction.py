"""The power fails while ``kafka-zk extract`` copies a flushed topic into a folder on the same disk: after the next runs
each record is in the folder exactly once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_zk.embedded.errors import EmbeddedError
from tests.integration.processes import COMMAND, ENVIRON
from tests.integration.spark import LOCAL, SMALL
from tests.power import judges, servers
from tests.power.disks import Pool
from tests.power.history import History, Mark, Topic
from tests.power.host import BROKER_ID, Host
from tests.power.judges import Violation
from tests.power.single import Cut
from tests.power.topics import FLUSHED
from tests.power.upheavals import create
from tests.power.verdict import Verdict
from tests.power.workload import Workload

TOPIC = Topic("extracted", durable=True, config=FLUSHED)
_RUN_TIMEOUT_S = 180
_RUNS_AFTER = 2
"""The first may only finish what was begun."""


class Extraction:
    """The run of one seed on one file system. Runs of the extraction follow each other until the last cut."""

    def __init__(self, pool: Pool, filesystem: str, kind: str, seed: int) -> None:
        self._name = f"{filesystem} extraction {kind} seed {seed}"
        self._random = random.Random(seed)
        self._seed = seed
        self._host = Host(pool, f"extraction-{seed}", filesystem, kind, self._random, flushes=True)
        self._lake = self._host.machine.volumes[1] / "lake"

    def play(self, cuts: int) -> Iterator[Verdict]:
        """Write and extract, cut the power that often at moments of chance, then judge each cut."""
        for number, cut in enumerate(self._run(cuts)):
            started_s = time.monotonic()
            violations = self._judge(cut)
            yield Verdict(f"{self._name} cut {number}", time.monotonic() - started_s, violations)
            cut.image.delete()

    def _run(self, cuts: int) -> list[Cut]:
        with self._host.running() as broker, servers.admin(broker.bootstrap) as client:
            create(client, [TOPIC], [[BROKER_ID]])
            workload = Workload(broker.bootstrap, [TOPIC], self._seed)
            workload.start()
            ended = threading.Event()
            runs = threading.Thread(target=self._extract_until, args=(ended,))
            runs.start()
            try:
                taken = self._cut_often(cuts, workload)
            finally:
                ended.set()
                runs.join(_RUN_TIMEOUT_S)
            workload.end()
        self._history = workload.history
        return taken

    def _cut_often(self, cuts: int, workload: Workload) -> list[Cut]:
        taken = []
        for number in range(cuts):
            time.sleep(self._random.uniform(2, 8))
            mark = workload.history.mark()
            taken.append(Cut(self._host.machine.cut(f"cut-{self._seed}-{number}"), mark))
            workload.check()
        return taken

    def _extract_until(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self._extract()

    def _extract(self) -> subprocess.CompletedProcess[str]:
        arguments = [
            "--zookeeper", self._host.zookeeper_connect, "--group", "extraction", "--topic", TOPIC.name,
            "--to", str(self._lake), "--format", "json", "--decode", "string", "--json", "--master", "local[1]",
        ]  # fmt: skip
        arguments += [f"--conf={name}={value}" for name, value in SMALL.items()]
        environ = {**ENVIRON, **os.environ, **LOCAL}
        return subprocess.run(
            [*COMMAND, "extract", *arguments], env=environ, capture_output=True, text=True, check=False,
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
        except (servers.NotServing, EmbeddedError) as error:
            return [Violation(judges.START, "-", str(error))]


def lake(folder: Path) -> list[tuple[int, str | None]]:
    """Offset and value of each record of a folder."""
    found = []
    for path in sorted(folder.glob("range=*/part-*.json")):
        for line in path.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            found.append((record["offset"], record.get("value")))
    return found


def faults(history: History, mark: Mark, found: list[tuple[int, str | None]]) -> Iterator[str]:
    """What is wrong with the lake: a record that was acknowledged before the cut is missing, one is there twice, or was
    not produced."""
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

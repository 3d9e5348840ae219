"""What the flight recorder's page costs: `python -m tests.peers.web.web_figures`, two or three minutes.

- a recording of a million entries, 200,000 of them changes of 5,000 znodes: how long it takes to open, to go to any
  moment, and until Chromium shows all of its time;
- 10,000 events on the axis: pictures a second in Chromium while the slider is dragged;
- 50 brokers with 2,000 and with 100,000 partitions, of which one dies: how long each response to the page takes;
- what recording costs a broker: opcodes a request, with the trace that the page reads and without (request_cost).

`--entries` makes the recording shorter, `--part` measures one of these. It ends with a list of the missed targets, and
with exit code 1 if there are any. docs/how-to/web.md has the figures that it printed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kafka_zk.base.events import Event, EventSource, harmless
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.trace_file import TraceWriter
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Transaction
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.bench.request_cost import KINDS, OneBroker
from tests.kafka_zk.recorder.web.large_cluster import large_cluster
from tests.peers.web.web_browser import page_of, until

PARTS = ("long", "axis", "large", "cost")
OPENED_S, WOUND_MS, PICTURE_MS, COST = 3, 100, 1000 / 59, 1.03
"""The targets: seconds to open a recording, ms to reach any moment, ms per picture at 60 a second as browsers count
them, and the ratio of a recorded broker's opcodes to those of an unrecorded one."""
SHOWN_AT_ONCE = 2_000
"""With this number of partitions, each response must arrive as fast as a moment's."""
BROKERS = 50
ENTRIES, ON_THE_AXIS = 1_000_000, 10_000
ZNODES = 5_000
CHANGES_SHARE = 5
"""One of this number of entries is a change."""
ACTORS = 20
MOMENTS = 50
DRAGGED_S = 3
_CHUNK = 20_000
_STEP_MS = 10
_BEGIN_MS = 1_700_000_000_000

_SHOWN = """
const found = performance.getEntriesByType("resource")
  .filter((each) => /api-(state|spans|entries|episodes)/.test(each.name));
return Math.max(...found.slice(0, 6).map((each) => each.responseEnd));
"""
_DRAG = """
const [seconds, done] = arguments;
const slider = document.getElementById("slider");
const times = [];
const begin = performance.now();
function frame(now) {
  times.push(now);
  const share = (now - begin) / (1000 * seconds);
  if (share >= 1) { done(times.slice(1).map((each, index) => each - times[index])); return; }
  slider.value = Number(slider.min) + share * (Number(slider.max) - Number(slider.min));
  slider.dispatchEvent(new Event("input"));
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);
"""


class Figures:
    """The measured figures, and those that miss their targets."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def want(self, what: str, measured: float, most: float) -> None:
        if measured > most:
            self.missed.append(f"{what}: {measured:.3g}, wanted {most:g} at most")


def main(entries: int, parts: Sequence[str]) -> int:
    figures = Figures()
    with TemporaryDirectory(prefix="kafka-zk-figures-") as name:
        folder = Path(name)
        if "long" in parts:
            _long(folder / "long.sqlite", entries, figures)
        if "axis" in parts:
            _record(folder / "short.sqlite", ON_THE_AXIS)
            _page(folder / "short.sqlite", f"{ON_THE_AXIS:,} events on the axis: drawn", figures)
        if "large" in parts:
            for topics, partitions in ((40, 50), (50, 2_000)):
                _large(folder / f"large-{topics * partitions}.sqlite", topics, partitions, figures)
        if "cost" in parts:
            _cost_of_recording(folder, figures)
    print("\n".join(f"missed: {each}" for each in figures.missed) or "nothing that was wanted is missed")
    return 1 if figures.missed else 0


def _long(path: Path, entries: int, figures: Figures) -> None:
    seconds = _timed(lambda: _record(path, entries))
    print(f"{entries:,} entries: recorded in {seconds:.0f} s, {path.stat().st_size / 1e6:.0f} MB", flush=True)
    _opening_and_winding(path, figures)
    _page(path, "until all of its time is drawn", figures)


def _large(path: Path, topics: int, partitions: int, figures: Figures) -> None:
    recording = Recording(path)
    recording.add([], large_cluster(BROKERS, topics, partitions))
    first_ms, last_ms = recording.entries.times() or (0, 0)
    api, range_ms = RecordingApi(recording), {"from_ms": str(first_ms), "to_ms": str(last_ms)}
    random = Random(2)
    moments = [{"seq": str(random.randrange(recording.entries.count // 2, recording.entries.count))} for _ in range(5)]
    asked: dict[str, Callable[[], object]] = {
        "the cluster": lambda: [api.state(each) for each in moments],
        "the znodes": lambda: [api.tree(each) for each in moments],
        "the timeline": lambda: [api.spans(range_ms) for _ in moments],
        "what happened": lambda: [api.episodes(range_ms) for _ in moments],
    }
    took_ms = {what: 1000 * _timed(ask) / len(moments) for what, ask in asked.items()}
    told = ", ".join(f"{what} {each:.0f} ms" for what, each in took_ms.items())
    count = recording.entries.count
    print(f"{BROKERS} brokers, {topics * partitions:,} partitions, {count:,} entries: {told}", flush=True)
    if topics * partitions <= SHOWN_AT_ONCE:
        for what, each in took_ms.items():
            figures.want(f"{what} of {topics * partitions:,} partitions, ms", each, WOUND_MS)
    recording.close()


def _timed(work: Callable[[], object]) -> float:
    begin_s = time.monotonic()
    work()
    return time.monotonic() - begin_s


def _record(path: Path, entries: int) -> None:
    recording = Recording(path)
    random = Random(0)
    for first in range(0, entries, _CHUNK):
        numbers = range(first, min(entries, first + _CHUNK))
        changes = [number for number in numbers if number % CHANGES_SHARE == 0]
        events = (number for number in numbers if number % CHANGES_SHARE)
        recording.add(_events(events, random), [_change(number, random) for number in changes])
    recording.close()


def _events(numbers: Iterator[int], random: Random) -> Iterator[Event]:
    for number in numbers:
        actor, path = f"broker-{random.randrange(ACTORS)}", f"/brokers/topics/t{random.randrange(ZNODES)}"
        yield WatchFired(_BEGIN_MS + number * _STEP_MS, actor, "measured", 0, path, EventType.CHANGED)


def _change(number: int, random: Random) -> Transaction:
    """A change; the first ones create the znodes."""
    which = number // CHANGES_SHARE
    at_ms = _BEGIN_MS + number * _STEP_MS
    if which < ZNODES:
        operation: Created | DataSet = Created(f"/z{which}", random.randbytes(100).hex().encode(), ephemeral=False)
    else:
        path = f"/z{random.randrange(min(which, ZNODES))}"
        operation = DataSet(path, random.randbytes(100).hex().encode(), which)
    return Transaction(which + 1, at_ms, 100 + which % ACTORS, (operation,))


def _opening_and_winding(path: Path, figures: Figures) -> None:
    opened: list[Recording] = []
    open_s = _timed(lambda: opened.append(Recording(path, read_only=True)))
    (recording,) = opened
    random = Random(1)
    moments = [random.randrange(1, recording.entries.count) for _ in range(MOMENTS)]
    wound_ms = [1000 * _timed(lambda seq=seq: recording.znodes.after(seq)) for seq in moments]  # type: ignore[misc]
    recording.close()
    print(f"  opened in {open_s:.2f} s; to {MOMENTS} moments of it: median {statistics.median(wound_ms):.0f} ms, "
          f"at most {max(wound_ms):.0f} ms")  # fmt: skip
    figures.want("opening, s", open_s, OPENED_S)
    figures.want("winding, ms", max(wound_ms), WOUND_MS)


def _page(path: Path, what: str, figures: Figures) -> None:
    with page_of("web", "--port", "0", str(path)) as page:
        until(lambda: page.text("#moment"), "the page")
        shown_s = page.driver.execute_script(_SHOWN) / 1000
        begin_s = time.monotonic()
        page.show_all_time()
        until(lambda: page.count("#timeline .counts") >= ACTORS, "all of its time")
        drawn_s = time.monotonic() - begin_s
        page.driver.set_script_timeout(10 * DRAGGED_S)
        frames_ms: list[float] = page.driver.execute_async_script(_DRAG, DRAGGED_S)
        late = sum(each > 2 * 1000 / 60 for each in frames_ms)
        figures.want("until the page is there, s", shown_s, OPENED_S)
        figures.want("a picture, ms", statistics.median(frames_ms), PICTURE_MS)
        print(f"  shown in {shown_s:.1f} s, {what} in {drawn_s:.1f} s", flush=True)
        print(f"  while the slider is dragged {1000 / statistics.mean(frames_ms):.0f} "
              f"pictures a second, median {statistics.median(frames_ms):.1f} ms, {late} of {len(frames_ms)} late, the "
              f"longest {max(frames_ms):.0f} ms", flush=True)  # fmt: skip


def _cost_of_recording(folder: Path, figures: Figures) -> None:
    with ExitStack() as closing:
        writer = TraceWriter(folder / "trace.jsonl", "broker-0")
        closing.callback(writer.close)
        sources = (EventSource(), EventSource("broker-0", harmless(writer)))
        brokers = []
        for name, source in zip(("off", "on"), sources, strict=True):
            (folder / name).mkdir()
            brokers.append(OneBroker(folder / name, source))
            closing.callback(brokers[-1].close)
        print("opcodes a request, without and with a trace:")
        for kind in KINDS:
            off, on = (broker.cost(kind).opcodes for broker in brokers)
            print(f"  {kind}: {off:,} and {on:,}, {on / off - 1:+.1%}", flush=True)
            figures.want(f"{kind}, opcodes with a trace to those without", on / off, COST)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--part", dest="parts", action="append", choices=PARTS)
    wanted = parser.parse_args()
    sys.exit(main(wanted.entries, wanted.parts or PARTS))

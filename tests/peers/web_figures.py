"""What the flight recorder's page costs: `python -m tests.peers.web_figures`, two or three minutes.

- a recording of a million entries, 200,000 of them changes of 5,000 znodes: how long it takes to open, to go to any
  moment, and until Chromium shows all of its time;
- 10,000 events on the axis: pictures a second in Chromium while the slider is dragged;
- what recording costs a broker: opcodes a request, with the trace that the page reads and without (request_cost).

`--entries` makes the recording shorter. The figures of docs/web.md are those that this printed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kafka_zk.registry.client import EventType
from kafka_zk.registry.events import Event, EventSource, WatchFired, harmless
from kafka_zk.registry.transaction_log import Created, DataSet, Transaction
from kafka_zk.timeline.trace_file import TraceWriter
from kafka_zk.web.recording import Recording
from tests.bench.request_cost import KINDS, OneBroker
from tests.peers.web_browser import page_of, until

ENTRIES, ON_THE_AXIS = 1_000_000, 10_000
ZNODES = 5_000
CHANGES_SHARE = 5
"""One entry in so many is a change."""
ACTORS = 20
MOMENTS = 50
DRAGGED_S = 3
_CHUNK = 20_000
_STEP_MS = 10
_BEGIN_MS = 1_700_000_000_000

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


def main(entries: int) -> None:
    with TemporaryDirectory(prefix="kafka-zk-figures-") as folder:
        long, short = Path(folder) / "long.sqlite", Path(folder) / "short.sqlite"
        seconds = _timed(lambda: _record(long, entries))
        print(f"{entries:,} entries: recorded in {seconds:.0f} s, {long.stat().st_size / 1e6:.0f} MB", flush=True)
        _opening_and_winding(long)
        _page(long, "until all of its time is drawn")
        _record(short, ON_THE_AXIS)
        _page(short, f"{ON_THE_AXIS:,} events on the axis: drawn")
        _cost_of_recording(Path(folder))


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
    """The first ones create the znodes."""
    which = number // CHANGES_SHARE
    at_ms = _BEGIN_MS + number * _STEP_MS
    if which < ZNODES:
        operation: Created | DataSet = Created(f"/z{which}", random.randbytes(100).hex().encode(), ephemeral=False)
    else:
        path = f"/z{random.randrange(min(which, ZNODES))}"
        operation = DataSet(path, random.randbytes(100).hex().encode(), which)
    return Transaction(which + 1, at_ms, 100 + which % ACTORS, (operation,))


def _opening_and_winding(path: Path) -> None:
    opened: list[Recording] = []
    open_s = _timed(lambda: opened.append(Recording(path, read_only=True)))
    (recording,) = opened
    random = Random(1)
    moments = [random.randrange(1, recording.count) for _ in range(MOMENTS)]
    wound_ms = [1000 * _timed(lambda seq=seq: recording.tree(seq)) for seq in moments]  # type: ignore[misc]
    recording.close()
    print(f"  opened in {open_s:.2f} s; to {MOMENTS} moments of it: median {statistics.median(wound_ms):.0f} ms, "
          f"at most {max(wound_ms):.0f} ms")  # fmt: skip


def _page(path: Path, what: str) -> None:
    with page_of("web", "--port", "0", str(path)) as page:
        until(lambda: page.text("#moment"), "the page")
        begin_s = time.monotonic()
        page.show_all_time()
        until(lambda: page.count("#timeline .counts") >= ACTORS, "all of its time")
        drawn_s = time.monotonic() - begin_s
        page.driver.set_script_timeout(10 * DRAGGED_S)
        frames_ms: list[float] = page.driver.execute_async_script(_DRAG, DRAGGED_S)
        late = sum(each > 2 * 1000 / 60 for each in frames_ms)
        print(f"  {what} in {drawn_s:.1f} s; while the slider is dragged {1000 / statistics.mean(frames_ms):.0f} "
              f"pictures a second, median {statistics.median(frames_ms):.1f} ms, {late} of {len(frames_ms)} late, the "
              f"longest {max(frames_ms):.0f} ms", flush=True)  # fmt: skip


def _cost_of_recording(folder: Path) -> None:
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=ENTRIES)
    sys.exit(main(parser.parse_args().entries))

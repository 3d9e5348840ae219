"""The data of an exported page: the responses of ``RecordingApi`` to every query of the page.

Data about a moment (the cluster, the znodes, ZooKeeper's health) is computed here and becomes patches. Data about an
interval that the reader chooses (entries, lanes, samples) is cut from the page's rows by ``exported.js``. Lanes and
their folds are those of the whole recording.

    recording, lesson, questions, episodes   the responses, unchanged
    strategies                               the response, unchanged
    plays                                    {subject, seq, from_ms and to_ms of an episode: its steps in slow motion}
    first                                    number of the first entry
    entries, details                         for each entry, its line, and the details that are shown when it is chosen
    explanations                             the explanation of each kind of entry
    wholes                                   for each entry, the last one of its transaction
    at                                       [time_ms, the last entry up to that time]
    states, trees, records                   [number of an entry, patch]
    health, batches                          [time_ms, patch]
    single, groups                           spans of processes; groups of lanes, each with its spans
    samples                                  {series: [[time_ms, value], …]}
    summed, asking                           the series to draw, and constants of the questions to brokers
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kafka_zk.recorder.page_export.patches import patches
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.holds import OF_ZOOKEEPER
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.spans import Span
from kafka_zk.recorder.web.api import (
    INTERVAL_S,
    MOST_ENTRIES,
    MOST_LANE_GROUPS,
    MOST_POINTS,
    MOST_ROWS,
    MOST_SPANS,
    MOST_SUMS,
    MOST_ZNODES,
    SAMPLING_PAUSE_MS,
    RecordingApi,
)
from kafka_zk.recorder.web.cluster_view import is_listed, series_of
from kafka_zk.recorder.web.lanes import is_folded, silences, with_outages
from kafka_zk.recorder.web.record_plays import sampled_records
from kafka_zk.recorder.web.strategies import strategies
from kafka_zk.recorder.web.summary import summary
from kafka_zk.recorder.web.zookeeper_view import MOST_SERVERS, NUMBERS, zookeeper_document

MOST_SAMPLES = 100_000
_EVER_MS = 1 << 62
_TOPICS = "/brokers/topics/"
_OFFSETS = ("end ", "committed ")
SHORTER = "show a part of it with kafka-zk web, choose 'save recording' there, and export that file"
"""What to do with a recording that is too long."""


class NotExportable(Exception):
    """``str()`` gives the reason and what to do."""


Progress = Callable[[float], None]
"""Called with the share that is done, from 0 to 1."""


def silent(share: float) -> None:
    """Show no progress."""


def page_data(recording: Recording, described: str, progress: Progress = silent) -> Document:
    """``described``: what was recorded. Raises: NotExportable, BadRequest (a damaged lesson), sqlite3.Error."""
    first = recording.entries.first
    try:
        return _PageData(recording, progress).document(described)
    finally:  # if entries were dropped, that also explains any other error
        if recording.entries.first > first:
            raise NotExportable("its beginning was dropped meanwhile: save it, and export the saved file")


class _PageData:
    def __init__(self, recording: Recording, progress: Progress) -> None:
        self._recording = recording
        self._progress = progress
        self._done = 0
        self._api = RecordingApi(recording)
        first, last = recording.entries.first, recording.entries.count
        if not last:
            raise NotExportable("it has no entries: there is nothing to export")
        _check(last - first + 1, MOST_ENTRIES, "entries")
        self._entries = recording.entries.numbered(first, last, MOST_ENTRIES)
        self._wholes = [recording.entries.whole(each.seq) for each in self._entries]
        self._steps = len(self._entries) + 3 * len(set(self._wholes))  # a step of progress per line, and three per view
        times = sorted({each.time_ms for each in self._entries})
        self._interval = {"from_ms": str(times[0]), "to_ms": str(times[-1])}
        self._times = times

    def document(self, described: str) -> Document:
        lanes = self._lanes()
        samples = self._samples()
        told = summary(self._recording, described)
        lesson = self._api.lesson({})
        episodes = self._api.episodes(self._interval)
        return {
            "recording": {**told, "now_ms": told["last_ms"]},
            "lesson": lesson,
            "questions": [self._api.question({"step": str(number)}) for number in range(len(lesson["steps"]))],
            "episodes": episodes,
            "strategies": strategies(),
            "plays": dict(map(self._play, episodes["episodes"])),
            "first": self._recording.entries.first,
            **self._entry_rows(),
            "wholes": self._wholes,
            "at": [[time_ms, self._api.at({"time_ms": str(time_ms)})["seq"]] for time_ms in self._times],
            "states": list(patches(self._each_whole(self._state))),
            "trees": list(patches(self._each_whole(self._tree))),
            "records": list(patches(self._each_whole(self._records))),
            "batches": list(patches(self._batches(samples))),
            "health": list(patches(self._healths(lanes["single"], samples))),
            **lanes,
            "samples": samples,
            "summed": [name for each in ("ends ", "lag ") for name in self._recording.samples.names(each, MOST_SUMS)],
            "asking": {"pause_ms": SAMPLING_PAUSE_MS, "round_ms": int(INTERVAL_S * 1000), "most_points": MOST_POINTS},
        }

    def _play(self, episode: Document) -> tuple[str, Document]:
        values = {name: str(episode[name]) for name in ("subject", "seq", "from_ms", "to_ms")}
        play = self._api.play(values)
        steps = [each for each in play["steps"] if each["seq"] >= self._entries[0].seq]  # see _exported
        return " ".join(values.values()), {**play, "steps": steps}

    def _entry_rows(self) -> Document:
        shorts, details, explanations = [], [], {}
        for entry in self._entries:
            document = self._api.entry({"seq": str(entry.seq)})
            explanations[entry.kind] = document.pop("explanation")
            details.append({name: document.pop(name) for name in ("title", "document", "reason")}
                           | {name: self._exported(document.pop(name)) for name in ("why", "effects")})
            shorts.append(document)
            self._step()
        return {"entries": shorts, "details": details, "explanations": explanations}

    def _exported(self, entries: list[Document]) -> list[int]:
        """The numbers of the entries that the page contains. Older entries only complete the state at its beginning."""
        return [each["seq"] for each in entries if each["seq"] >= self._entries[0].seq]

    def _each_whole(self, view: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
        for seq in sorted(set(self._wholes)):
            yield seq, view(seq)
            self._step()

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done / self._steps)

    def _state(self, seq: int) -> Document:
        """The cluster with all partitions, the topics that are unfolded at first, the series of groups' partitions, and
        the watchers of znodes that do not exist.
        """
        znodes = self._recording.znodes.after(seq).znodes
        topics = [path.removeprefix(_TOPICS) for path in znodes if path.startswith(_TOPICS)]
        opened = "\n".join(name for name in topics if "/" not in name)
        cluster = self._api.state({"seq": str(seq), "open": opened})["cluster"]
        watched = self._recording.entries.watchers(seq)
        return {
            "cluster": cluster,
            "listed": [each["name"] for each in cluster["topics"] if is_listed(each, cluster["partition_count"])],
            "grouped": list(dict.fromkeys(series_of({**cluster, "topics": []}, MOST_ROWS))),
            "watched": {path: names for path, names in watched.items() if path not in znodes},
        }

    def _tree(self, seq: int) -> list[Document]:
        told = self._api.tree({"seq": str(seq)})
        _check(told["count"], MOST_ZNODES, "znodes")
        rows: list[Document] = told["znodes"]
        return rows

    def _records(self, seq: int) -> list[Document]:
        plays: list[Document] = self._api.records({"seq": str(seq)})["plays"]
        return plays

    def _batches(self, samples: Document) -> Iterator[tuple[int, list[Document]]]:
        """The batches at each time at which one of their offsets may have changed."""
        times = {time_ms for name, points in samples.items() if name.startswith(_OFFSETS) for time_ms, _ in points}
        cluster_seq, cluster = -1, Document()
        for time_ms in sorted({*times, *(self._times if times else ())}):
            seq = self._recording.entries.whole(self._api.at({"time_ms": str(time_ms)})["seq"])
            if seq != cluster_seq:
                cluster_seq, cluster = seq, self._api.state({"seq": str(seq)})["cluster"]
            yield time_ms, sampled_records(self._recording, cluster, seq, time_ms, "")

    def _healths(self, single: Sequence[Span], samples: Document) -> Iterator[tuple[int, Document]]:
        """The health at each time at which it may change. A span without a successor ends after its last ms."""
        values: dict[int, dict[str, int]] = {0: {}}
        for name, points in samples.items():
            for time_ms, value in points if name.startswith(NUMBERS) else ():
                values.setdefault(time_ms, {})[name] = value
        own = [each for each in single if each.kind in OF_ZOOKEEPER]
        begins, ends = {each.from_ms for each in own}, {each.to_ms for each in own if each.to_ms is not None}
        measured: dict[str, int] = {}
        for time_ms in sorted({*values, *begins, *ends, *(each + 1 for each in ends)}):
            measured |= values.get(time_ms, {})
            servers = self._recording.spans.at(OF_ZOOKEEPER, time_ms, MOST_SERVERS)
            yield time_ms, {"zookeeper": zookeeper_document(servers, measured)}

    def _lanes(self) -> Document:
        first_ms, spans = self._times[0], self._recording.spans
        _check(sum(1 for _ in spans.rows(first_ms, _EVER_MS)), MOST_SPANS, "spans of partitions and processes")
        single = spans.single(first_ms, _EVER_MS, MOST_SPANS)
        brokers = [each for each in single if each.kind == "broker"]
        groups = []
        for group in spans.groups(first_ms, _EVER_MS, MOST_LANE_GROUPS):
            own = with_outages(spans.of_group(group, first_ms, _EVER_MS, MOST_SPANS), brokers)
            silent = silences((each.from_ms, each.to_ms) for each in own if not each.holder)
            groups.append({**group._asdict(), "folded": is_folded(group, (), ()), "silences": silent, "spans": own})
        return {"single": single, "groups": groups}

    def _samples(self) -> Document:
        found: dict[str, list[Any]] = {}
        rows = self._recording.samples.rows(self._times[0], _EVER_MS)
        _check(len(rows), MOST_SAMPLES, "samples")
        for series, time_ms, value in sorted(rows, key=lambda row: (row[0], row[1])):
            found.setdefault(series, []).append([time_ms, value])
        return found


def _check(count: int, most: int, what: str) -> None:
    if count > most:
        raise NotExportable(f"it has {count:,} {what}, and an exported page holds at most {most:,}: {SHORTER}")

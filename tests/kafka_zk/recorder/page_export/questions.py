"""Requests of the page at random moments of a recording, and their responses."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import BadRequest, RecordingApi


def questions(recording: Recording, count: int, seed: int) -> list[list[Any]]:
    """``count`` moments, each with [question, values, answer]; the answer is JSON, or an error message."""
    return [asked for number in range(count) for asked in _at_a_moment(recording, Random(f"{seed} {number}"))]


def _at_a_moment(recording: Recording, random: Random) -> Iterator[list[Any]]:
    api, (first_ms, last_ms) = RecordingApi(recording), recording.entries.times() or (0, 0)
    seq = str(random.randint(recording.entries.first, recording.entries.count))
    at = random.randint(first_ms - 10, last_ms)
    since, until = sorted(random.randint(first_ms - 10, last_ms + 1_000) for _ in range(2))
    groups = recording.spans.groups(first_ms, last_ms, 99)
    lanes = ["\n".join(f"{each.kind} {each.stem}" for each in groups if random.random() < 0.3) for _ in range(2)]
    znodes = sorted(recording.znodes.after(recording.entries.count).znodes)
    topics = [path.rpartition("/")[2] for path in znodes if path.rpartition("/")[0] == "/brokers/topics"]
    interval = {"from_ms": str(since), "to_ms": str(until)}
    whole = {"from_ms": str(first_ms), "to_ms": str(last_ms)}  # an exported page folds the lanes of the whole recording
    moment = {"seq": seq, "time_ms": str(at)}
    episode = random.choice(api.episodes(whole)["episodes"])
    played = {name: str(episode[name]) for name in ("subject", "seq", "from_ms", "to_ms")}
    for name, values in (
        ("state", {**moment, "open": "\n".join(each for each in topics if random.random() < 0.3)}),
        ("tree", {"seq": seq, "path": "", "name": random.choice(("", "broker", "/t"))}),
        ("znode", {"seq": seq, "path": random.choice(znodes)}), ("health", moment), ("at", moment),
        ("records", moment),
        ("play", played), ("step", {"seq": seq, "by": random.choice(("1", "-1"))}), ("entry", {"seq": seq}),
        ("entries", interval), ("samples", interval), ("spans", {**whole, "open": lanes[0], "close": lanes[1]}),
    ):  # fmt: skip
        yield [name, values, _answer(getattr(api, name), values)]


def _answer(question: Any, values: dict[str, str]) -> str:
    try:
        return json.dumps(question(values))
    except BadRequest as error:
        return json.dumps({"error": str(error)})

"""The judges' findings about the records of each simulated run, as a note in the recording. Pure."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition

KEY = "verdicts"
"""Key of the recording's note."""
LOST, WRITTEN_TWICE, NOT_READ, READ_TWICE, LEFT_OUT = "lost", "written twice", "not read", "read twice", "left out"
"""Fates that are faults."""


class Fault(NamedTuple):
    """``fate``: one of the faults. ``said``: why, in a few words."""

    tp: TopicPartition
    value: str
    fate: str
    said: str


class Verdict(NamedTuple):
    """``play``: the run, which is a part of the lesson. ``rule``: the old rule in one sentence, "" if none was in
    force. ``faults``: the records that were lost, duplicated, left unread or left out of a transaction by the end.
    ``found``: all that the judges found, in sentences.
    """

    play: str
    rule: str
    faults: tuple[Fault, ...]
    found: tuple[str, ...]
    conclusion: str


def encode(verdicts: Sequence[Verdict]) -> str:
    return json.dumps([each._asdict() for each in verdicts])


def decode(text: str) -> dict[str, Verdict]:
    """The verdicts by run. Raises: ValueError, KeyError, TypeError."""
    found = {}
    for each in json.loads(text):
        faults = tuple(Fault(TopicPartition(*tp), *rest) for tp, *rest in each["faults"])
        found[each["play"]] = Verdict(each["play"], each["rule"], faults, tuple(each["found"]), each["conclusion"])
    return found

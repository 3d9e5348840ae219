"""``kafka-zk lesson``: how a group works, on a live cluster, step by step."""

import signal
import tempfile
from pathlib import Path
from types import FrameType

import click

from kafka_zk.cli.options import json_option
from kafka_zk.cli.output import print_json


@click.command("lesson", short_help="A guided lesson on consumer groups, on a live cluster.")
@click.option("--pause/--no-pause", default=True, help="Wait for Enter at each thought and before each watch fires.")
@click.option("--chapter", "chapters", type=click.IntRange(1, 3), multiple=True, help="Only this one; may be repeated.")
@json_option
def command(pause: bool, chapters: tuple[int, ...], as_json: bool) -> None:
    """Start a small cluster and show on it how consumers share partitions through ZooKeeper.

    \b
    1. five consumers on four partitions: one is idle
    2. two groups on one topic: each gets everything
    3. the same kill in an eager and a cooperative group, with the lag of both against the input

    The consumers are real members, in this process, so that each watch can be held back until you have read what it
    means. Nothing is left behind. --json shows what was measured instead, without pauses.
    """
    from kafka_zk.lesson.chapters import CHAPTERS
    from kafka_zk.lesson.classroom import Classroom
    from kafka_zk.lesson.teacher import Teacher

    signal.signal(signal.SIGTERM, _interrupt)
    teacher = Teacher(False, lambda line: None) if as_json else Teacher(pause)
    report = {}
    with tempfile.TemporaryDirectory(prefix="kafka-zk-lesson-") as folder:
        teacher.show("A ZooKeeper and a broker start …")
        with Classroom(Path(folder), teacher) as room:
            teacher.show(f"… and serve: `kafka-zk znodes --zookeeper {room.zookeeper} /consumers` shows what is there.")
            for number in sorted(set(chapters) or CHAPTERS):
                report[f"chapter {number}"] = CHAPTERS[number](room)
    if as_json:
        print_json(report)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

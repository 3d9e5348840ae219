"""``kafka-zk lesson``: how a group works, on a live cluster, step by step."""

import tempfile
from pathlib import Path

import click

from kafka_zk.broker.signals import interrupt_at_the_end
from kafka_zk.cli.options import json_option
from kafka_zk.cli.output import print_json


@click.command("lesson", short_help="A guided lesson on consumer groups, on a live cluster.")
@click.option("--pause/--no-pause", default=True, help="Wait for Enter after each explanation and before each watch.")
@click.option("--chapter", "chapters", type=click.IntRange(1, 3), multiple=True, help="Only this one; may be repeated.")
@json_option
def command(pause: bool, chapters: tuple[int, ...], as_json: bool) -> None:
    """Start a small cluster and show how consumers share partitions through ZooKeeper.

    \b
    1. five consumers on four partitions: one is idle
    2. two groups on one topic: each gets everything
    3. the same crash in an eager and a cooperative group, with the lag of both

    The consumers are real members, in this process, so that each watch can be held back until you have read what it
    means. Nothing is left behind. --json prints the measurements instead, without pauses.
    """
    from kafka_zk.lesson.chapters import CHAPTERS
    from kafka_zk.lesson.classroom import Classroom
    from kafka_zk.lesson.teacher import Teacher

    interrupt_at_the_end()
    teacher = Teacher(False, lambda line: None) if as_json else Teacher(pause)
    report = {}
    with tempfile.TemporaryDirectory(prefix="kafka-zk-lesson-") as folder:
        teacher.show("A ZooKeeper and a broker start …")
        with Classroom(Path(folder), teacher) as room:
            teacher.show(f"… and serve. `kafka-zk znodes --zookeeper {room.zookeeper} /consumers` shows the znodes.")
            for number in sorted(set(chapters) or CHAPTERS):
                report[f"chapter {number}"] = CHAPTERS[number](room)
    if as_json:
        print_json(report)

"""``kafka-zk lesson``: how groups and replicas work, on a live cluster, step by step."""

import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.cluster.web import URL
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import WEB_PORT, json_option, web_option
from kafka_zk.cli.terminal.output import note, print_json, say


@click.command("lesson", short_help="A guided lesson on groups and replicas, on a live cluster.")
@click.option("--pause/--no-pause", default=True, help="Stop after each explanation and at each new kind of watch.")
@click.option(
    "--chapter", "chapters", type=click.IntRange(1, 10), multiple=True, help="Only this chapter; may be repeated."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every step of each rebalance, not only its summary.")
@web_option(f"Read it in a browser, with pictures and questions, on this port (default {WEB_PORT}).")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Save the lesson of --web in this new file, for kafka-zk web FILE and kafka-zk web --export.",
)
@json_option
def command(
    pause: bool, chapters: tuple[int, ...], verbose: bool, web_port: int | None, record: Path | None, as_json: bool
) -> None:
    """Start a small cluster and show how consumers share partitions, and what brokers do when one of them dies.

    \b
    1. five consumers on four partitions: one is idle
    2. two groups on one topic: each gets everything
    3. the same crash in an eager and a cooperative group, with the lag of both
    4. the same changes in a ZooKeeper group and in a broker group
    5. a leader dies: what three brokers then write to the znodes
    6. what an acknowledgement is worth: acks=1, acks=all and min.insync.replicas
    7. what an unclean election loses
    8. two controllers and the epoch: the orders of the old one are refused
    9. why a follower truncates its log, and where
    10. ACLs and quotas: who may do what, and how much

    At a stop, Enter continues, s skips to the next chapter, b goes back (to the beginning of the chapter, then to the
    chapter before), and q ends the lesson. In chapters 1 to 4 the consumers are real members in this process, so each
    watch can wait until you have read what it means; this time is not counted. The lesson removes everything that it
    creates. --json prints the measurements instead, without stops.

    With --web the chapters are on a page, step by step, with the cluster, its znodes and the timeline of each moment,
    and with questions. The lesson is recorded meanwhile; the page stays until Ctrl-C.
    """
    from kafka_zk.learn.lesson import course
    from kafka_zk.learn.lesson.chapters import CHAPTERS
    from kafka_zk.learn.lesson.rooms import Rooms
    from kafka_zk.learn.lesson.teacher import Teacher

    interrupt_at_the_end()
    if record is not None and web_port is None:
        raise click.UsageError("--record saves the lesson of --web, so it needs --web")
    if web_port is not None:
        _on_page(web_port, sorted(set(chapters) or CHAPTERS), record, as_json)
        return
    teacher = Teacher(False, lambda line: None) if as_json else Teacher(pause)
    with (
        tempfile.TemporaryDirectory(prefix="kafka-zk-lesson-") as folder,
        Rooms(Path(folder), teacher, verbose) as rooms,
    ):
        report = course.run(rooms, CHAPTERS, sorted(set(chapters) or CHAPTERS))
        teacher.tell("The cluster stops; nothing is left behind.")
    if as_json:
        print_json(report)


def _on_page(port: int, chapters: Sequence[int], record: Path | None, as_json: bool) -> None:
    from twisted.internet.error import CannotListenError

    from kafka_zk.learn.lesson.chapters import CHAPTERS
    from kafka_zk.learn.lesson.page import LessonPage
    from kafka_zk.recorder.recording.errors import NoRecording

    if record is not None and record.exists():
        raise CommandFailed(f"{record} already exists: choose another name, or delete it")

    def begun(url: str) -> None:
        if as_json:
            print_json({"event": "web", "url": url})
        else:
            say(f"{URL}{url}")

    try:
        page = LessonPage(port, begun, record)
    except CannotListenError as error:
        raise CommandFailed(f"port {port} is in use; choose another one with --web PORT") from error
    except NoRecording as error:
        raise CommandFailed(str(error)) from error
    note("a cluster is starting for the lesson; the page will be ready in a few seconds")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kafka-zk-lesson-", ignore_cleanup_errors=True) as folder,
            suppress(KeyboardInterrupt),
        ):
            page.teach(Path(folder), CHAPTERS, chapters)
            signal.pause()
    finally:
        page.stop()

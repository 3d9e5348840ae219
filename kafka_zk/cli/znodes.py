"""``kafka-zk znodes``: the znode tree."""

import re
import shutil
import sys

import click

from kafka_zk.cli.terminal.options import json_option, zookeeper_option
from kafka_zk.cli.terminal.output import print_json

_BREAKS = re.compile(r"(?<=[,\s])")


def _print_broken(name: str, data: str, owner: str, columns: int) -> None:
    indent = " " * (len(name) - len(name.lstrip()) + 4)
    click.secho(name, bold=True)
    line = indent
    for piece in _BREAKS.split(data):
        if line.strip() and len(line) + len(piece.rstrip()) > columns:
            click.echo(line.rstrip())
            line = indent
        line += piece
    click.echo(line.rstrip())
    if owner:
        click.secho(f"{indent}({owner})", fg="cyan")


@click.command("znodes", short_help="Show the znode tree with data and owners.")
@click.argument("path", default="/")
@zookeeper_option("The ZooKeeper to look at.  [default: 127.0.0.1:2181]", envvar="KAFKA_ZK_ZOOKEEPER")
@click.option("--depth", type=click.IntRange(0), help="Levels below PATH to show; all by default.")
@json_option
def command(path: str, zookeeper: str | None, depth: int | None, as_json: bool) -> None:
    """Show the znodes below PATH with their data, and the sessions that own the ephemeral ones. Passwords and SCRAM
    keys are shown as [hidden].

    \b
    kafka-zk znodes                         everything but ZooKeeper's own /zookeeper
    kafka-zk znodes /brokers/ids
    kafka-zk znodes --zookeeper zk1:2181/kafka --depth 1
    """
    from kafka_zk.cli.terminal.zookeeper_client import DEFAULT_ZOOKEEPER, zookeeper_client
    from kafka_zk.registry import znode_tree
    from kafka_zk.registry.client import connect_string
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    if not path.startswith("/"):
        raise click.UsageError(f"PATH {path!r} does not start with /")
    zookeeper = zookeeper or DEFAULT_ZOOKEEPER
    with zookeeper_client(zookeeper) as client:
        chroot = connect_string.parse(zookeeper).chroot
        nodes = run_blocking(znode_tree.read_tree(client, path.rstrip("/") or "/", depth, chroot))
    if as_json:
        print_json([znode_tree.as_document(node) for node in nodes])
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for name, data, owner in znode_tree.lines(nodes):
        if columns and len(f"{name}  {data}  ({owner})") > columns:
            _print_broken(name, data, owner, columns)
            continue
        parts = [click.style(name, bold=True), data, click.style(f"({owner})", fg="cyan") if owner else ""]
        click.echo("  ".join(part for part in parts if part))

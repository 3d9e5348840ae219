"""Where the page of ``kafka-zk web`` is served: on this machine, and with ``--share`` for viewers on others."""

import socket
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import WEB_PORT, json_option

if TYPE_CHECKING:
    from kafka_zk.recorder.web.viewers import ShareAddress

_ELSEWHERE = ("198.51.100.1", 9)
"""An address on no machine (RFC 5737): the route to it leaves through the interface that reaches other machines."""

_NOT_OTHERS = ("127.", "0.")
"""The beginnings of addresses of this machine only."""

_OPTIONS = (
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=WEB_PORT,
        show_default=True,
        help="Port of the page, and with --share also of the viewers' page; 0 chooses a free one.",
    ),
    click.option(
        "--share",
        is_flag=True,
        help="Let others read the page and follow it while you present: print a link for you, and one for viewers on "
        "other machines. Without --share, no other machine can reach the page.",
    ),
    click.option(
        "--share-address",
        metavar="HOST",
        help="With --share: this machine's address or name in the viewers' link [default: the address that reaches "
        "other machines].",
    ),
    json_option,
)


class Links(NamedTuple):
    """Where the page is served, and how its links are printed. ``share``: None if no other machine reaches it."""

    port: int
    share: "ShareAddress | None"
    as_json: bool


class LinkOptions(NamedTuple):
    """The options of the command line. ``named``: the address that the user has named."""

    port: int
    share: bool
    named: str | None
    as_json: bool

    def found(self) -> Links:
        """Raises: CommandFailed."""
        return Links(self.port, share_address(self.named) if self.share else None, self.as_json)


def link_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets the parameter ``links``, which is ``LinkOptions``."""

    @wraps(command)
    def collected(
        *arguments: Any, port: int, share: bool, share_address: str | None, as_json: bool, **others: Any
    ) -> Any:
        if share_address is not None and not share:
            raise click.UsageError("--share-address needs --share")
        return command(*arguments, links=LinkOptions(port, share, share_address, as_json), **others)

    decorated: Callable[..., Any] = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def share_address(named: str | None) -> "ShareAddress":
    """The address that the user has named, else the one from which this machine reaches others. Raises:
    CommandFailed.
    """
    from kafka_zk.recorder.web.viewers import ShareAddress

    if named is None:
        ip = _own_ip()
        if ip is None:
            raise CommandFailed("no IPv4 address of this machine reaches others: name one with --share-address")
        return ShareAddress(ip, ip)
    try:
        found = socket.getaddrinfo(named, None, socket.AF_INET, socket.SOCK_STREAM)
        host = named.lower().encode("idna").decode()  # as browsers send it in the Host header
    except (OSError, UnicodeError):
        raise CommandFailed(f"--share-address {named} is neither an IPv4 address nor a name that has one") from None
    ip = str(found[0][4][0])
    if ip.startswith(_NOT_OTHERS):
        raise CommandFailed(f"--share-address {named} leads to this machine only: name an address that others reach")
    return ShareAddress(host, ip)


def shared_sentence(address: "ShareAddress") -> str:
    return (
        f"Other machines can read this page at {address.host}, without encryption, if they have the viewers' link; "
        "they cannot change anything."
    )


def _own_ip() -> str | None:
    """Sends nothing: connecting a datagram socket only chooses a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return None
        ip = str(probe.getsockname()[0])
    return None if ip.startswith(_NOT_OTHERS) else ip

"""What the programs in Python have in common: ``PROGRAM ROLE BOOTSTRAP NAME``, JSON lines on stdout.

NAME is the topic, the group, the transactional id and the client id. A producer reads lines of numbers, sends the
numbers of a line together (transactional producers: in one transaction) and tells the outcome of each. A member of the
group tells what it has read, commits, tells the outcome, and leaves at the end of its input.
"""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

TIMEOUT_S = 20
"""Every client gives up a record after this time, so a record is refused before the program counts as stuck."""
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 300
POLL_MS = 200


class Arguments(NamedTuple):
    role: str
    bootstrap: str
    name: str

    @property
    def idempotent(self) -> bool:
        return self.role != "plain"

    @property
    def transactional_id(self) -> str | None:
        return self.name if self.role in ("transactional", "offsets") else None


class Producer(Protocol):
    def send(self, values: Sequence[bytes]) -> Iterable[Exception | None]:
        """Send values together; returns the outcome of each."""

    def begin(self) -> None: ...

    def send_offset(self, next_offset: int) -> None:
        """Commit an offset of the group in the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Member(Protocol):
    def poll(self) -> Sequence[tuple[int, bytes]]:
        """The next records, as offsets and values. An empty sequence if none come."""

    def commit(self, next_offset: int) -> None: ...

    def close(self) -> None: ...


def tell(event: str, values: Sequence[int], error: object = "") -> None:
    text = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
    print(json.dumps({"event": event, "values": values, "error": text}), flush=True)


def main(producer: Callable[[Arguments], Producer], member: Callable[[Arguments], Member]) -> None:
    """Be a producer or a member until the input ends."""
    arguments = Arguments(*sys.argv[1:])
    if arguments.role == "member":
        _be_member(member(arguments))
        return
    sending = producer(arguments)
    for line in sys.stdin:
        values = [int(each) for each in line.split()]
        if arguments.transactional_id is None:
            _send(sending, values)
        else:
            _transact(sending, values, with_offset=arguments.role == "offsets")
    sending.close()


def _send(producer: Producer, values: Sequence[int]) -> None:
    for value, error in zip(values, producer.send([b"%d" % value for value in values]), strict=True):
        tell("acknowledged" if error is None else "refused", [value], error or "")


def _transact(producer: Producer, values: Sequence[int], *, with_offset: bool) -> None:
    try:
        producer.begin()
        for error in producer.send([b"%d" % value for value in values]):
            if error is not None:
                raise error
        if with_offset:
            producer.send_offset(values[-1] + 1)
        producer.commit()
        tell("acknowledged", values)
    except Exception as error:  # each client has errors of its own
        _abort(producer, values, error)


def _abort(producer: Producer, values: Sequence[int], cause: Exception) -> None:
    try:
        producer.abort()
        tell("aborted", values, cause)
    except Exception as error:  # each client has errors of its own
        tell("refused", values, f"{type(cause).__name__}: {cause}; then abort: {type(error).__name__}: {error}")


def _be_member(member: Member) -> None:
    leaving = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        leaving.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    while not leaving.is_set():
        records = member.poll()
        if records:
            values = [int(value) for _, value in records]
            tell("read", values)
            try:
                member.commit(records[-1][0] + 1)
                tell("committed", values)
            except Exception as error:  # each client has errors of its own
                tell("refused", values, error)
    member.close()

"""The cost that quotas and an authorizer add to a request, in opcodes of Python: `python -m tests.bench.added_cost`.

The bench compares the same broker before and after.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer, topic
from kafka_zk.broker.security.denials import Denials
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestHeader
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from tests.bench.request_cost import OneBroker, opcodes
from tests.kafka_zk.broker.conftest import CONTEXT, build_harness

PRODUCE, FETCH = "produce 1 KB", "fetch 64 KB"

ROWS: list[tuple[str, dict[str, str], int]] = [
    (PRODUCE, {}, 6),
    (FETCH, {}, 6),
    (PRODUCE, {"producer_byte_rate": "1000000000"}, 90),
    (FETCH, {"consumer_byte_rate": "1000000000"}, 90),
    (PRODUCE, {"request_percentage": "1000000"}, 90),
    (FETCH, {"request_percentage": "1000000"}, 90),
]
"""A request, quotas far above its use (none: the quotas were removed), and the opcodes that they may add to it."""

MOST_OF_DECISION = 6
"""How many more opcodes a cached decision may cost than a decision without an authorizer."""

MOST_OF_FIRST_METADATA = 2.0
"""The allowed cost of a client's first Metadata, as a multiple of its cost without ACLs."""

_TOPICS = 500
_ACLS = 7_000
_CLIENT = "User:a"
_ALL_TOPICS = RequestHeader(int(ApiKey.METADATA), 12, 7, "c")


def of_quotas(kind: str, properties: dict[str, str]) -> int:
    """The opcodes that the quotas add."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-added-cost-") as folder:
        broker = OneBroker(Path(folder))
        try:
            before = broker.cost(kind).opcodes
            broker.limit({key: "1000000000" for key in ("producer_byte_rate", "consumer_byte_rate")})
            broker.limit(properties)
            return broker.cost(kind).opcodes - before
        finally:
            broker.close()


def of_remembered_decision() -> int:
    """The opcodes of an AclAuthorizer's cached decision, beyond those of a decision without an authorizer."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-added-cost-") as folder:
        authorizer = _authorizer(build_harness(Path(folder)).clock)
        asked = CONTEXT._replace(principal=_CLIENT), Operation.READ, topic("topic-000")
        assert authorizer.authorize(*asked)
        without = NoAuthorizer([])
        return opcodes(lambda: authorizer.authorize(*asked)) - opcodes(lambda: without.authorize(*asked))


def of_first_metadata(with_acls: bool) -> int:
    """Opcodes of a client's first Metadata of all topics, after other clients have sent such requests."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-added-cost-") as folder:
        harness = build_harness(Path(folder))
        for number in range(_TOPICS):
            harness.lead(f"topic-{number:03}")
        dispatcher = Dispatcher(harness.services)
        body = memoryview(
            bytes(codec.encode_body(codec.request(ApiKey.METADATA)(topics=None), ApiKey.METADATA, 12))
        )

        def ask() -> Any:
            context = CONTEXT._replace(principal=_CLIENT)
            coroutine = dispatcher.dispatch(context, _ALL_TOPICS, body)
            try:
                coroutine.send(None)
            except StopIteration as end:
                return end.value
            raise AssertionError("the clock stands, so that no turn is over")

        answers = [ask()]
        if with_acls:
            harness.services.authorizer = _authorizer(harness.clock)
        count = opcodes(lambda: answers.append(ask()))
        assert answers[0] == answers[1], "not all topics are allowed"
        return count


def _authorizer(clock: Any) -> Authorizer:
    """An authorizer with _ACLS for the client, half of them for prefixes, which together allow it all topics."""
    rules = AclRules()
    acls = frozenset([Acl(_CLIENT, "*", Operation.READ, Permission.ALLOW)])
    for number in range(_ACLS // 2):
        literal = f"topic-{number:03}" if number < _TOPICS else f"other-{number}"
        prefix = f"topic-{number:03}" if number < _TOPICS // 2 else f"others-{number}-"
        rules.put(Pattern(ResourceType.TOPIC, literal, PatternType.LITERAL), acls)
        rules.put(Pattern(ResourceType.TOPIC, prefix, PatternType.PREFIXED), acls)
    nothing: Any = None  # no request goes to ZooKeeper
    authorizer = AclAuthorizer(nothing, nothing, clock, rules, Denials(clock))
    authorizer.is_loaded = True
    return authorizer


def report() -> Iterator[str]:
    """The lines of the report."""
    for kind, properties, most in ROWS:
        added = of_quotas(kind, properties)
        yield f"{kind}, {next(iter(properties), 'no quota any more')}: {added:+} opcodes (at most {most})"
    yield f"a remembered decision: {of_remembered_decision():+} opcodes (at most {MOST_OF_DECISION})"
    ratio = of_first_metadata(with_acls=True) / of_first_metadata(with_acls=False)
    yield f"the first Metadata, {_TOPICS} topics, {_ACLS:,} ACLs: x{ratio:.2f} (at most x{MOST_OF_FIRST_METADATA:g})"


if __name__ == "__main__":
    for line in report():
        print(line)

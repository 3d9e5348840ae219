"""A fault changes a broker's behaviour while it lasts, and leaves no trace when it ends."""

import resource
from typing import Any, cast

import pytest

from kafka_zk.broker.faults.errors import InvalidFault, WrongBroker
from kafka_zk.broker.faults.faults import MOST_FAULTS
from kafka_zk.broker.handlers.data import fetch, produce
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.faults.conftest import Installed, done


def test_an_api_has_its_usual_handler_before_and_after_a_fault(installed: Installed) -> None:
    assert installed.handler(ApiKey.PRODUCE) is produce.handle
    fault = installed.begin(fault="throttle", ms=10)
    assert installed.handler(ApiKey.PRODUCE) is not produce.handle
    assert installed.handler(ApiKey.HEARTBEAT) is Dispatcher(installed.services)._raw_handlers[ApiKey.HEARTBEAT]
    installed.faults.end(fault.number)
    assert installed.handler(ApiKey.PRODUCE) is produce.handle
    assert installed.handler(ApiKey.FETCH) is fetch.handle


def test_an_api_with_decoded_requests_has_no_wrapper_after_a_fault(installed: Installed) -> None:
    fault = installed.begin(fault="error", api="Metadata", code="LEADER_NOT_AVAILABLE", topic="t")
    assert installed.metadata().topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert installed.metadata().topics[0].error_code == ErrorCode.NONE
    assert installed.faults.end(fault.number).fired == 1
    assert installed.handler(ApiKey.METADATA) is None


def test_two_faults_on_one_api_both_act_and_each_ends_alone(installed: Installed) -> None:
    first = installed.begin(fault="error", api="Metadata", code=5, times=9)
    second = installed.begin(fault="error", api="Metadata", code=3, times=1)
    codes = [installed.metadata().topics[0].error_code for _ in range(2)]
    assert codes == [3, 5]
    installed.faults.end(first.number)
    assert second.fired == 1
    assert installed.metadata().topics[0].error_code == 0


def test_steps_of_the_clock_add_up_and_end(installed: Installed) -> None:
    before_ms = installed.clock.wall_ms()
    first = installed.begin(fault="clock_step", step_ms=3_600_000)
    second = installed.begin(fault="clock_step", step_ms=3_600_000)
    assert installed.clock.wall_ms() - before_ms >= 7_200_000
    assert installed.clock.wall_ns() // 1_000_000 - before_ms >= 7_200_000
    assert installed.faults.end(second.number).fired == 2
    assert installed.clock.step_ms == 3_600_000
    installed.faults.end(first.number)
    assert installed.clock.step_ms == 0


def test_a_full_disk_ends_with_the_limit_that_was_there(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ulimit -f`` or a batch system may have set a limit before."""
    limits = [(1000, 2000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    first, second = installed.begin(fault="disk_full"), installed.begin(fault="disk_full")
    installed.faults.end(first.number)
    assert limits[-1] == (0, 2000)
    installed.faults.end(second.number)
    assert limits == [(1000, 2000), (0, 2000), (1000, 2000)]


def test_a_fault_that_cannot_begin_is_not_open(installed: Installed) -> None:
    with pytest.raises(InvalidFault, match="no group exists yet: let a consumer join its group first"):
        installed.begin(fault="coordinator_moves")
    with pytest.raises(WrongBroker, match="is not the controller"):
        installed.begin(fault="leader_moves", topic="t", partition=0)
    cast(Any, installed.services.controller).is_active = True
    with pytest.raises(InvalidFault, match="the leader of t-0 cannot move: the cluster has one broker"):
        installed.begin(fault="leader_moves", topic="t", partition=0)
    with pytest.raises(InvalidFault, match="partition t-9 does not exist"):
        installed.begin(fault="leader_moves", topic="t", partition=9)
    assert not installed.faults.open


def test_a_fault_that_is_ended_while_it_begins_is_refused_with_its_own_reason(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_and_refuse(*_: Any) -> None:
        installed.faults.end(1)
        raise InvalidFault("the leader did not move")

    monkeypatch.setattr("kafka_zk.broker.faults.faults.move_leaders", end_and_refuse)
    with pytest.raises(InvalidFault, match="did not move"):
        installed.begin(fault="leader_moves", topic="t", partition=0)


def test_the_number_of_open_faults_is_limited(installed: Installed) -> None:
    for _ in range(MOST_FAULTS):
        installed.begin(fault="throttle", ms=1)
    with pytest.raises(InvalidFault, match="100 faults are open"):
        installed.begin(fault="throttle", ms=1)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/faults", b"", 200),
        ("POST", "/faults", b"{", 400),
        ("POST", "/faults", b"[" * 10_000, 400),
        ("POST", "/faults", b'{"fault": "leader_moves", "topic": "t", "partition": 0}', 409),
        ("GET", "/", b"", 404),
        ("GET", "/faults/1", b"", 404),
        ("POST", "/faults/1/end", b"", 404),
        ("POST", "/faults/x/end", b"", 404),
        ("GET", "/faults/" + "9" * 5000, b"", 404),
        ("HEAD", "/faults", b"", 404),
    ],
)
def test_the_api_has_a_status_for_each_outcome(
    installed: Installed, method: str, path: str, body: bytes, status: int
) -> None:
    got, document = done(installed.api.answer(method, path, body))
    assert got == status
    assert ("error" in document) is (status >= 400)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": b"Bearer wrong"}, 401),
        ({"authorization": b"Bearer \xff"}, 401),
        ({"authorization": b"Bearer 0123456789abcdef", "origin": b"null"}, 403),
    ],
)
def test_a_request_without_the_token_or_from_a_browser_is_refused(
    installed: Installed, headers: dict[str, bytes], status: int
) -> None:
    refusal = installed.api.refusal(headers)
    assert refusal is not None
    assert refusal[0] == status
    assert installed.api.refusal({"authorization": b"Bearer 0123456789abcdef"}) is None

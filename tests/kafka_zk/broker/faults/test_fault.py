"""Which faults there are, which requests they hit, and how often."""

from typing import Any

import pytest

from kafka_zk.broker.faults.errors import InvalidFault
from kafka_zk.broker.faults.fault import KINDS, Fault, RequestNames, read_fault
from kafka_zk.embedded.faults import ClusterFaults
from kafka_zk.protocol.api_keys import ApiKey

REQUEST = RequestNames("app", frozenset({"orders"}), frozenset({"billing"}))


def error(**arguments: Any) -> Fault:
    return read_fault(1, {"fault": "error", "api": "Produce", "code": 6, **arguments})


def test_a_fault_fires_once_by_default() -> None:
    fault = error()
    assert [fault.hits(REQUEST) for _ in range(3)] == [True, False, False]
    assert fault.fired == 1


def test_times_is_how_often_it_fires() -> None:
    fault = error(times=2)
    assert [fault.hits(REQUEST) for _ in range(3)] == [True, True, False]


def test_the_nth_request_is_hit() -> None:
    fault = read_fault(1, {"fault": "drop_answer", "api": "Produce", "nth": 3})
    assert [fault.hits(REQUEST) for _ in range(4)] == [False, False, True, False]


def test_a_throttle_has_no_last_time() -> None:
    fault = read_fault(1, {"fault": "throttle", "ms": 10})
    assert all(fault.hits(REQUEST) for _ in range(50))
    assert fault.apis == (ApiKey.PRODUCE, ApiKey.FETCH)


@pytest.mark.parametrize("name", ["client_id", "topic", "group"])
def test_a_request_must_pass_each_filter(name: str) -> None:
    passing = {"client_id": "app", "topic": "orders", "group": "billing"}
    assert error(**passing).hits(REQUEST)
    other = error(**{**passing, name: "other"})
    assert not other.hits(REQUEST)
    assert other.fired == 0


def test_a_request_that_does_not_pass_is_not_the_nth() -> None:
    fault = read_fault(1, {"fault": "drop_answer", "api": "Produce", "nth": 2, "topic": "orders"})
    assert not fault.hits(RequestNames("app"))
    assert [fault.hits(REQUEST), fault.hits(REQUEST)] == [False, True]


@pytest.mark.parametrize("spelling", ["JoinGroup", "JOIN_GROUP", "join_group", 11, "11"])
def test_an_api_has_several_spellings(spelling: object) -> None:
    fault = read_fault(1, {"fault": "error", "api": spelling, "code": "not_coordinator"})
    assert fault.apis == (ApiKey.JOIN_GROUP,)
    described = {"id": 1, "fault": "error", "fired": 0, "api": "JOIN_GROUP", "code": "NOT_COORDINATOR"}
    assert fault.as_document() == described


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "a fault is a JSON object"),
        ({}, "there is no fault None"),
        ({"fault": ["error"]}, r"there is no fault \['error'\]"),
        ({"fault": "eror"}, "there is no fault 'eror': it must be one of error, drop_answer"),
        ({"fault": "error", "code": 6}, "error needs 'api'"),
        ({"fault": "error", "api": "Produce", "code": 6, "ms": 3}, "error has no argument 'ms'"),
        ({"fault": "error", "api": "Produce", "code": 0}, "code: there is no error 0"),
        ({"fault": "error", "api": "Produce", "code": 6, "times": 0}, "times: 0 is not a number from 1 to"),
        ({"fault": "throttle", "ms": True}, "ms: True is not a number"),
        ({"fault": "throttle", "ms": 10, "topic": ""}, "topic: '' is not a name"),
        ({"fault": "throttle", "ms": 10, "topic": "\ud800"}, r"topic: '\\ud800' is not Unicode"),
        ({"fault": "clock_step", "step_ms": 10**15}, "step_ms: 1000000000000000 is not a number"),
    ],
)
def test_a_wrong_fault_says_what_is_wrong(document: object, reason: str) -> None:
    with pytest.raises(InvalidFault, match=reason):
        read_fault(1, document)


def test_the_fixtures_offer_each_fault_by_its_name() -> None:
    assert [name for name in vars(ClusterFaults) if not name.startswith("_")] == sorted(
        KINDS, key=list(vars(ClusterFaults)).index
    )

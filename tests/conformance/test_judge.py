"""The judge finds each way in which a client can break its promises, and nothing else."""

from tests.conformance.judge import Event, Truth, Verdict, judge


def trace(*events: tuple[str, tuple[int, ...]]) -> list[Event]:
    """One event a second."""
    return [Event(float(at_s), kind, values) for at_s, (kind, values) in enumerate(events)]


def produced(*events: tuple[str, tuple[int, ...]], log: tuple[int, ...], group_offset: int | None = None) -> Verdict:
    return judge(trace(*events), Truth(log, group_offset), reads=False)


def read(*events: tuple[str, tuple[int, ...]], group_offset: int) -> Verdict:
    return judge(trace(*events), Truth((), group_offset), reads=True)


HEALTHY = (
    ("began", ()), ("fed", (0, 1)), ("acknowledged", (0, 1)), ("ended", ()), ("fed", (2,)), ("acknowledged", (2,))
)  # fmt: skip


def test_a_client_that_keeps_its_promises_passes() -> None:
    verdict = produced(*HEALTHY, log=(0, 1, 2))
    assert verdict == Verdict(3, (), (), (), 0, 0, 0, 1.0)
    assert verdict.objections(()) == []


def test_a_value_that_was_acknowledged_and_is_not_in_the_log_is_lost() -> None:
    assert produced(*HEALTHY, log=(0, 2)).lost == (1,)


def test_a_value_that_was_refused_may_be_in_the_log_or_not() -> None:
    events = (*HEALTHY[:4], ("fed", (2,)), ("refused", (2,)), ("fed", (3,)), ("acknowledged", (3,)))
    for log in ((0, 1, 3), (0, 1, 2, 3)):
        verdict = produced(*events, log=log)
        assert (verdict.lost, verdict.doubled, verdict.leaked, verdict.refused) == ((), (), (), 1)


def test_a_value_that_is_in_the_log_twice_is_doubled() -> None:
    verdict = produced(*HEALTHY, log=(0, 1, 0, 1, 2))
    assert verdict.doubled == (0, 1)
    assert verdict.objections(()) == ["doubled"]
    assert verdict.objections({"doubled"}) == []


def test_a_value_of_an_aborted_transaction_must_not_be_readable() -> None:
    events = (*HEALTHY, ("fed", (3,)), ("aborted", (3,)))
    assert produced(*events, log=(0, 1, 2, 3)).leaked == (3,)
    assert produced(*events, log=(0, 1, 2)).leaked == ()


def test_an_offset_that_was_acknowledged_and_is_not_committed_is_lost() -> None:
    assert produced(*HEALTHY, log=(0, 1, 2), group_offset=2).lost == (2,)
    assert read(("began", ()), ("fed", (0,)), ("read", (0,)), ("committed", (0,)), group_offset=0).lost == (0,)


def test_a_value_that_a_member_skips_is_lost() -> None:
    events = (("began", ()), ("fed", (0, 1, 2)), ("read", (0,)), ("read", (2,)), ("committed", (2,)))
    assert read(*events, group_offset=3).lost == (1,)


def test_a_value_that_a_member_reads_after_its_commit_is_doubled() -> None:
    began, again = (("began", ()), ("fed", (0,)), ("read", (0,))), (("read", (0,)), ("committed", (0,)))
    assert read(*began, ("committed", (0,)), *again, group_offset=1).doubled == (0,)
    assert read(*began, ("refused", (0,)), *again, group_offset=1).doubled == ()


def test_the_wait_for_a_success_is_measured_over_refusals_and_replacements() -> None:
    events = (("began", ()), ("fed", (0,)), ("refused", (0,)), ("replaced", ()), ("fed", (1,)), ("acknowledged", (1,)))
    verdict = produced(*events, log=(1,))
    assert (verdict.recovered_s, verdict.replaced) == (4.0, 1)


def test_a_wait_before_the_fault_does_not_count() -> None:
    events = (("fed", (0,)), ("refused", (0,)), ("acknowledged", (0,)), *HEALTHY)
    assert produced(*events, log=(0, 1, 2)).recovered_s == 1.0


def test_a_client_that_never_succeeds_again_is_stuck() -> None:
    verdict = produced(("began", ()), ("fed", (0,)), ("stuck", ()), ("ended", ()), log=())
    assert (verdict.recovered_s, verdict.stuck) == (None, 1)
    assert verdict.objections({"refused", "replaced"}) == ["stuck"]

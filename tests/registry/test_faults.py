"""Each fault of a znode is reported once; if there are many, only a few are reported."""

from kafka_zk.registry.faults import PATH_COUNT, TOLD_COUNT, ZnodeFaults


def test_a_fault_is_reported_again_after_a_change() -> None:
    told: list[str] = []
    faults = ZnodeFaults(told.append)
    for found in (["bad"], ["bad"], ["worse"], [], ["worse"]):
        faults.found("/a", found)
    assert told == ["/a: bad", "/a: worse", "/a: worse"]


def test_of_many_faults_in_a_znode_a_few_are_reported() -> None:
    told: list[str] = []
    ZnodeFaults(told.append).found("/a", [f"/a: {number}" for number in range(50_000)])
    assert told == [*(f"/a: {number}" for number in range(TOLD_COUNT)), f"/a: and {50_000 - TOLD_COUNT} more entries"]


def test_of_many_znodes_with_faults_the_first_are_named() -> None:
    """The faults are reported again after most of the znodes were valid or gone in between."""
    told: list[str] = []
    faults = ZnodeFaults(told.append)
    for _ in range(2):
        for number in range(5_000):
            faults.found(f"/{number}", ["bad"])
        assert len(told) == PATH_COUNT + 1
        assert told[-1] == "more than 100 znodes have invalid content or are hidden; the others are not named"
        faults.forget_where(lambda path: True)
        told.clear()

"""All steps are run, and the generator's value is returned."""

from collections.abc import Generator

from kafka_zk.base.steps import run_to_end


def test_all_steps_run_and_the_value_is_returned() -> None:
    done: list[int] = []

    def steps() -> Generator[None, None, int]:
        for number in range(3):
            yield
            done.append(number)
        return sum(done)

    assert run_to_end(steps()) == 3
    assert done == [0, 1, 2]

"""The lesson's time stands still while the teacher holds it."""

from kafka_zk.learn.lesson.clock import LessonClock


class Wall:
    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


def test_held_time_is_not_counted() -> None:
    """Events during a hold get the time at which the clock was stopped."""
    wall = Wall()
    clock = LessonClock(wall)
    assert clock.lesson_ms(1_000) == 1_000
    with clock.held():
        wall.ms = 4_800
        assert clock.lesson_ms(4_800) == 1_000
        assert clock.lesson_ms(990) == 990, "the event was reported late, but happened before"
    wall.ms = 4_817
    assert clock.lesson_ms(4_817) == 1_017


def test_it_goes_on_when_nobody_holds_it_any_more() -> None:
    """Several watches may hold the clock at the same time."""
    wall = Wall()
    clock = LessonClock(wall)
    clock.hold()
    wall.ms += 10
    clock.hold()
    wall.ms += 10
    clock.resume()
    wall.ms += 10
    clock.resume()
    wall.ms += 5
    assert clock.lesson_ms(wall.ms) == 1_005

"""How a lesson, or a chapter of it, ends before its end."""


class LessonFailed(Exception):
    """The lesson did not come to its end; the message is one sentence."""


class ChapterLeft(Exception):
    """The reader wants to go elsewhere.

    Args:
        step: from this chapter: 1 the next one, 0 its beginning, -1 the one before; None: to the end of the lesson.
    """

    def __init__(self, step: int | None) -> None:
        super().__init__(step)
        self.step = step

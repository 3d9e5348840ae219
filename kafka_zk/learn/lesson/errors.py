"""Exceptions that end a lesson or a chapter early."""


class LessonFailed(Exception):
    """The lesson failed; the message is one sentence."""


class ChapterLeft(Exception):
    """The reader leaves the chapter.

    Args:
        step: where to continue: 1 for the next chapter, 0 for the beginning of this one, -1 for the previous one; None
            ends the lesson.
    """

    def __init__(self, step: int | None) -> None:
        super().__init__(step)
        self.step = step

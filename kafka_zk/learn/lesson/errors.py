"""How a lesson or a chapter ends early."""


class LessonFailed(Exception):
    """The lesson failed; the message is one sentence."""


class ChapterLeft(Exception):
    """The reader leaves the chapter.

    Args:
        step: relative to this chapter: 1 for the next one, 0 for its beginning, -1 for the previous one; None ends the
            lesson.
    """

    def __init__(self, step: int | None) -> None:
        super().__init__(step)
        self.step = step

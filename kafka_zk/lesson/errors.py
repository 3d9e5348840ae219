"""How a lesson fails."""


class LessonFailed(Exception):
    """The lesson did not come to its end; the message is one sentence."""

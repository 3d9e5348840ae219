"""How the demo fails."""


class DemoFailed(Exception):
    """The demo did not come to its end; the message is one sentence."""

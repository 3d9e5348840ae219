"""Memory that the operating system gives by the page."""

import mmap


def zeroed_memory(size_bytes: int) -> mmap.mmap:
    """Zeros that take no memory before they are touched, and give it back when they are closed."""
    return mmap.mmap(-1, size_bytes)

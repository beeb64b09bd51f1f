"""Facts about this machine that decide how kernels run."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from juju.errors import ArgumentError

BAD_THREADS = "JUJU_THREADS is {text!r}; it must be a number of threads, such as 4"


@cache
def cores() -> int:
    """How many threads may run at a time: `JUJU_THREADS`, or what the system lets this process use.

    Raises `ArgumentError` if `JUJU_THREADS` is not a number.
    """
    text = os.environ.get("JUJU_THREADS")
    if text:
        if not (text.isascii() and text.isdecimal() and int(text)):
            raise ArgumentError(BAD_THREADS.format(text=text))
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def stream_bytes() -> int:
    """From so many bytes of operands and results together on, a kernel should store around the cache.

    The size of the last-level cache: below, plain stores are as fast, and leave the result where the next step looks.
    """
    largest = 0
    for folder in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        with suppress(OSError, ValueError):
            if (folder / "type").read_text().strip() == "Unified":
                largest = max(largest, int((folder / "size").read_text().strip().removesuffix("K")) << 10)
    return largest or 32 << 20

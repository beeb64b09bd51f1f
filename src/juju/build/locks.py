"""Locks between threads and processes that leave no file behind."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST_NAP = 0.05


class Cancelled(BaseException):
    """The build this thread works for was given up by its caller; never leaves `build_kernels`."""


@contextmanager
def hold(path: Path, cancel: threading.Event | None = None) -> Iterator[None]:
    """Holds the lock file `path`, also against other threads of this process.

    The lock ends with the process, however it ends. The file is removed on release, so a lock that was got on a file
    which is no longer at `path` is worth nothing and is tried again. Raises `OSError` where files cannot be locked.
    """
    descriptor = _acquire(path, cancel)
    try:
        yield
    finally:
        release(descriptor, path)


def try_hold(path: Path) -> int | None:
    """Takes the lock if nobody has it; returns the descriptor for `release`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, path):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def release(descriptor: int, path: Path) -> None:
    """Gives back what `try_hold` returned."""
    try:
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _acquire(path: Path, cancel: threading.Event | None) -> int:
    nap = 0.001
    while (descriptor := try_hold(path)) is None:
        if cancel is not None and cancel.is_set():
            raise Cancelled
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)

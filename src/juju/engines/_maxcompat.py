"""A private corner of MAX: MLIR's current context is that of the thread which imported MAX first."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager

from max import mlir
from max._mlir_context import default_mlir_context


@contextmanager
def mlir_context() -> Iterator[None]:
    """Graphs can be built inside, in any thread."""
    if mlir.Context.current is None:
        with default_mlir_context():
            yield
    else:
        yield


@atexit.register
def _enter() -> None:
    # MAX leaves its context in the main thread at exit, and complains if it was another thread that entered it.
    if mlir.Context.current is None:
        default_mlir_context().__enter__()

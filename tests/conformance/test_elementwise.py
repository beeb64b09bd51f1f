"""JAX's primitive harnesses of the elementwise groups: juju's results are those of `jax.jit`.

All harnesses are compiled together when the first one runs. What does not pass is in `known_gaps.txt` with its reason;
a gap that passes fails the test until its line is removed.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
pytest.importorskip("jax._src.internal_test_util.test_harnesses", reason="this JAX ships no harnesses")

from support import assert_same

import juju
from conformance.harnesses import ELEMENTWISE, arguments, harnesses, is_complex, known_gaps

HARNESSES = {h.fullname: h for h in harnesses(ELEMENTWISE) if not is_complex(h)}
COMPLEX = [h.fullname for h in harnesses(ELEMENTWISE) if is_complex(h)]
GAPS = known_gaps()
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-5, "float64": 1e-11}
"""Largest difference from jax.jit in parts of the largest value; both may be off from the truth."""


class _Compiled:
    """The compiled harnesses, made at first use."""

    def __init__(self) -> None:
        self._done: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        if self._done is None:
            lowered, failed = {}, {}
            for key, harness in HARNESSES.items():
                with jax.enable_x64(_is_wide(harness)):
                    try:
                        lowered[key] = juju.fuse(harness.dyn_fun, name=harness.group_name).lower(*arguments(harness))
                    except Exception as error:
                        failed[key] = error
            done = juju.compile_all(list(lowered.values()), return_exceptions=True)
            self._done = {**failed, **dict(zip(lowered, done, strict=True))}
        found = self._done[name]
        if isinstance(found, Exception):
            raise found
        return found


COMPILED = _Compiled()


def _is_wide(harness: Any) -> bool:
    values = [harness.dtype, *harness.params.values()]
    return any(isinstance(v, (type, np.dtype)) and np.dtype(v).itemsize == 8 for v in values)


def check(name: str) -> None:
    harness = HARNESSES[name]
    args = arguments(harness)
    with jax.enable_x64(_is_wide(harness)):
        got = COMPILED[name].call_flat([jax.numpy.asarray(x) for x in args])
        want = jax.jit(harness.dyn_fun)(*args)
        dtypes = {str(leaf.dtype) for leaf in jax.tree_util.tree_leaves(want)}
        assert_same(got, want, ulp=4, scale=max((TOLERANCE.get(d, 0.0) for d in dtypes), default=0.0))


@pytest.mark.parametrize("name", HARNESSES)
def test_harness(name: str) -> None:
    if name not in GAPS:
        check(name)
        return
    with pytest.raises((juju.JujuError, AssertionError)) as caught:
        check(name)
    assert GAPS[name] in f"{type(caught.value).__name__}: {caught.value}", "the gap has another reason now"


def test_every_known_gap_is_a_harness() -> None:
    assert set(GAPS) <= set(HARNESSES)


def test_complex_harnesses_are_counted_as_a_gap() -> None:
    assert len(COMPLEX) >= 60

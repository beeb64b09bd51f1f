"""JAX's primitive harnesses of what moves, indexes and reduces arrays: juju's results are those of `jax.jit`.

A fixed sample runs each time, all of them with `JUJU_CONFORMANCE=all`. The slow tests run every one of them through the
interpreter.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
pytest.importorskip("jax._src.internal_test_util.test_harnesses", reason="this JAX ships no harnesses")

from interpreter import assert_interpreted

from conformance.harnesses import MOVING, REDUCING, arguments, harnesses, is_complex, is_wide, real, sample
from conformance.running import Runner, tolerance
from juju.passes import run_pipeline

ALL = real([*MOVING, *REDUCING])
RUNNER = Runner(sample(ALL, share=5))


@pytest.mark.parametrize("name", RUNNER.harnesses)
def test_harness(name: str) -> None:
    RUNNER.check(name)


@pytest.mark.slow
@pytest.mark.parametrize("passes", [None, run_pipeline], ids=["rules", "passes"])
@pytest.mark.parametrize("group", [*MOVING, *REDUCING])
def test_group_through_the_interpreter(group: str, passes: Any) -> None:
    failed = []
    for name, harness in real([group]).items():
        x64 = is_wide(harness)
        with jax.enable_x64(x64):
            args = arguments(harness)
            scale = tolerance(jax.eval_shape(harness.dyn_fun, *args))
        try:
            assert_interpreted(harness.dyn_fun, *args, ulp=4, scale=scale, x64=x64, passes=passes)
        except Exception as error:
            failed.append(f"{name}: {error}")
    assert not failed, "\n".join(failed)


def test_complex_harnesses_are_counted_as_a_gap() -> None:
    assert sum(map(is_complex, harnesses([*MOVING, *REDUCING]))) == 47


def test_the_sample_has_every_group() -> None:
    assert {h.group_name for h in RUNNER.harnesses.values()} == {*MOVING, *REDUCING}
    assert len(ALL) > 900

"""JAX's primitive harnesses of the elementwise groups: juju's results are those of `jax.jit`.

All harnesses are compiled together when the first one runs. What does not pass is in `known_gaps.txt` with its reason;
a gap that passes fails the test until its line is removed.
"""

from __future__ import annotations

import pytest

pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
pytest.importorskip("jax._src.internal_test_util.test_harnesses", reason="this JAX ships no harnesses")

import juju
from conformance.harnesses import ELEMENTWISE, harnesses, is_complex, known_gaps, real
from conformance.running import Runner

HARNESSES = real(ELEMENTWISE)
COMPLEX = [h.fullname for h in harnesses(ELEMENTWISE) if is_complex(h)]
GAPS = known_gaps()
RUNNER = Runner(HARNESSES)


@pytest.mark.parametrize("name", HARNESSES)
def test_harness(name: str) -> None:
    if name not in GAPS:
        RUNNER.check(name)
        return
    with pytest.raises((juju.JujuError, AssertionError)) as caught:
        RUNNER.check(name)
    assert GAPS[name] in f"{type(caught.value).__name__}: {caught.value}", "the gap has another reason now"


def test_every_known_gap_is_a_harness() -> None:
    assert set(GAPS) <= set(HARNESSES)


def test_complex_harnesses_are_counted_as_a_gap() -> None:
    assert len(COMPLEX) >= 60

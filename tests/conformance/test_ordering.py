"""JAX's primitive harnesses of what sorts, selects and writes by index: juju's results are those of `jax.jit`.

A fixed sample runs each time, all of them with `JUJU_CONFORMANCE=all`.
"""

from __future__ import annotations

import pytest

pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
pytest.importorskip("jax._src.internal_test_util.test_harnesses", reason="this JAX ships no harnesses")

from conformance.harnesses import ORDERING, WRITING, harnesses, is_complex, real, sample
from conformance.running import Runner

ALL = real([*ORDERING, *WRITING])
RUNNER = Runner({**sample(real(ORDERING), share=3), **sample(real(WRITING), share=40)})


@pytest.mark.parametrize("name", RUNNER.harnesses)
def test_harness(name: str) -> None:
    RUNNER.check(name)


def test_complex_harnesses_are_counted_as_a_gap() -> None:
    assert sum(map(is_complex, harnesses([*ORDERING, *WRITING]))) == 6


def test_the_sample_has_every_group() -> None:
    assert {h.group_name for h in RUNNER.harnesses.values()} == {*ORDERING, *WRITING}
    assert len(ALL) > 3000

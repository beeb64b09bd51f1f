"""Each elementwise function of `jax.nn`, `jax.scipy.special`, `jax.scipy.stats` is one kernel, and its gradient is one.

A result is right if it is that of `jax.jit`, or if it is as near to that of `jax.jit` in float64 as `jax.jit` itself
gets around the same point: these functions subtract and divide rounded numbers, so that neither side is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library import GAPS, KERNELS, NOT_ELEMENTWISE, RANDOM, elementwise, functions, gradient, points
from support import Batch, Case

import juju

pytestmark = pytest.mark.skipif(
    jax.__version_info__ >= (0, 11),
    reason="the tables of what is elementwise, and in how many kernels, are of JAX 0.10; 0.12 writes many of them anew",
)

FUNCTIONS = dict(elementwise())
SUPPORTED = {name: f for name, f in FUNCTIONS.items() if name.split()[0] not in GAPS}
DIFFERENT = {
    "stats.gennorm.cdf": "XLA takes the logarithm of x ** beta as beta * log(x)",
}
"""Functions whose results at edge values are neither those of `jax.jit` nor those in float64, and why."""


DIFFERENT_GRADIENTS = {
    **DIFFERENT,
    "special.zeta": "JAX's operations one by one give what juju gives; XLA adds the terms of the series otherwise",
}
"""The same for gradients."""

SAMPLE = (
    "nn.gelu nn.log_sigmoid nn.mish nn.selu nn.silu nn.softplus nn.squareplus special.digamma special.entr special.erf "
    "special.expit special.i0e special.logit special.xlogy "
    "stats.cauchy.cdf stats.logistic.ppf stats.norm.logpdf"
).split()
"""Functions that are compared in the other float types, too."""

ROUNDINGS, ROUNDINGS_OF_A_GRADIENT = 16, 64
"""Roundings that may lie between two right results: relative differences up to as many epsilons."""

NEIGHBOURS = 8
"""Points around each point at which the error of `jax.jit` is looked for, too."""


def assert_right(
    got: np.ndarray,
    want: np.ndarray,
    exact: Callable[[], tuple[np.ndarray, np.ndarray]],
    args: list[np.ndarray],
    roundings: int,
) -> None:
    """Compares with the results of `jax.jit` and, where they differ, with `exact` ones and the error of `jax.jit`."""
    info = jnp.finfo(want.dtype)
    eps, tiny = float(info.eps), float(info.tiny)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    g, w = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        right = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= roundings * eps * np.abs(w) + tiny)
        if right.all():
            return
        e, error = exact()
        allowed = 4 * error + roundings * eps * np.abs(e) + tiny
        right |= (g == e) | (np.isnan(g) & np.isnan(e)) | (np.abs(g - e) <= allowed)
    if not right.all():
        at = np.flatnonzero(~right)
        shown = [
            f"{[float(np.broadcast_to(a, g.shape)[k]) for a in args]}: {g[k]}, jax.jit {w[k]}, in float64 {e[k]}"
            for k in at[:5]
        ]
        raise AssertionError(f"{at.size} of {right.size} differ: " + "; ".join(shown))


@dataclass
class LibraryCase(Case):
    """A function on its points; the results are compared by `assert_right`."""

    roundings: int = ROUNDINGS

    def check(self, compiled: juju.Compiled) -> None:
        assert len(compiled.plan.launches) == self.kernels
        with jax.enable_x64(self.x64):
            got = compiled.call_flat([jnp.asarray(x) for x in self.args])
            want = jax.jit(self.f)(*self.args)
        got_leaves, want_leaves = jax.tree.leaves(got), jax.tree.leaves(want)
        assert len(got_leaves) == len(want_leaves)
        failures = []
        for n, (g, w) in enumerate(zip(got_leaves, want_leaves, strict=True)):
            try:
                assert_right(np.asarray(g), np.asarray(w), lambda n=n: self.exact()[n], list(self.args), self.roundings)
            except AssertionError as failure:
                failures.append(f"result {n}: {failure}")
        if failures:
            raise AssertionError("\n".join(failures))

    def exact(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The results in float64, and the largest error of `jax.jit` at the points and around them.

        There is no wider type for float64: an error is a few roundings of a number near 1.
        """
        exact = self._wide(self.args)
        if self.x64:
            return [(e, np.full(e.shape, ROUNDINGS * np.finfo(np.float64).eps / 4)) for e in exact]
        errors = [np.zeros(e.shape) for e in exact]
        rng = np.random.default_rng(11)
        for n in range(NEIGHBOURS + 1):
            args = self.args if n == 0 else [_beside(a, rng) for a in self.args]
            rounded = [np.asarray(leaf).astype(np.float64) for leaf in jax.tree.leaves(jax.jit(self.f)(*args))]
            for k, (r, e) in enumerate(zip(rounded, exact if n == 0 else self._wide(args), strict=True)):
                with np.errstate(invalid="ignore"):
                    errors[k] = np.fmax(errors[k], np.where(np.isfinite(r - e), np.abs(r - e), 0))
        return list(zip(exact, errors, strict=True))

    def _wide(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        with jax.enable_x64(True):
            wide = [a.astype(np.float64) if jnp.issubdtype(a.dtype, jnp.floating) else a for a in args]
            return [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(self.f)(*wide))]


def _beside(a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The numbers up to a five-hundredth larger or smaller, far enough to be rounded in another way."""
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return a
    steps = rng.uniform(-1, 1, a.shape) * 2.0**-9
    with np.errstate(invalid="ignore"):
        return (a.astype(np.float64) * (1 + steps)).astype(a.dtype)


def case(name: str, dtype: str = "float32", *, edges: bool = True) -> LibraryCase:
    function = FUNCTIONS[name]
    args = points(name, function, dtype)
    if not edges:
        args = [a[:RANDOM] if a.ndim else a for a in args]
    kernels = KERNELS.get(name, (1, 1))[0]
    with jax.enable_x64(dtype == "float64"):
        label = name if dtype == "float32" else f"{name} {dtype}"
        return LibraryCase(label, function, tuple(args), kernels=kernels, options=_named(name), x64=dtype == "float64")


def _named(name: str) -> dict[str, Any]:
    return {"name": "".join(c if c.isalnum() else "_" for c in name)}


def gradient_case(name: str) -> LibraryCase:
    base = case(name, edges=name not in DIFFERENT_GRADIENTS)
    f = gradient(base.f, list(base.args))
    assert f is not None
    return LibraryCase(
        name,
        f,
        base.args,
        kernels=KERNELS.get(name, (1, 1))[1],
        options=_named(f"gradient_{name}"),
        roundings=ROUNDINGS_OF_A_GRADIENT,
    )


VALUES = Batch([case(name, edges=name not in DIFFERENT) for name in SUPPORTED if not name.startswith("stats.")])
DISTRIBUTIONS = Batch([case(name, edges=name not in DIFFERENT) for name in SUPPORTED if name.startswith("stats.")])
GRADIENTS = Batch([gradient_case(name) for name in SUPPORTED])
SAMPLES = Batch([case(name, dtype) for name in SAMPLE for dtype in ("float64", "bfloat16", "float16")])
EDGES = Batch([case(name) for name in DIFFERENT])


@VALUES.parametrize()
def test_function(name: str) -> None:
    VALUES.check(name)


@pytest.mark.slow
@DISTRIBUTIONS.parametrize()
def test_distribution(name: str) -> None:
    DISTRIBUTIONS.check(name)


@pytest.mark.slow
@GRADIENTS.parametrize()
def test_gradient(name: str) -> None:
    GRADIENTS.check(name)


@pytest.mark.slow
@SAMPLES.parametrize()
def test_other_dtypes(name: str) -> None:
    SAMPLES.check(name)


@pytest.mark.slow
@EDGES.parametrize()
def test_differences_are_still_there(name: str) -> None:
    with pytest.raises(AssertionError, match=r"differ: "):
        EDGES.check(name)


@pytest.mark.parametrize("name", GAPS)
def test_gap(name: str) -> None:
    """A gap that is gone fails here: its line in `GAPS` is to be removed."""
    f = FUNCTIONS[name]
    with pytest.raises(juju.UnsupportedPrimitive, match=rf"\b{GAPS[name]}\b"):
        _ = juju.fuse(f).lower(*points(name, f, "float32")).plan


def test_the_tables_name_functions() -> None:
    named = {name for name, _ in functions()}
    assert set(GAPS) | set(NOT_ELEMENTWISE) <= named
    assert not set(GAPS) & set(NOT_ELEMENTWISE)
    assert set(DIFFERENT) | set(KERNELS) | set(SAMPLE) <= set(SUPPORTED)


def test_functions_are_counted() -> None:
    """JAX 0.10 and later have these many at least."""
    assert len(FUNCTIONS) >= 170
    assert len(GAPS) <= 15
    assert len(KERNELS) <= 13


def test_shapes_of_elementwise_functions() -> None:
    for name, f in FUNCTIONS.items():
        args = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in points(name, f, "float32")]
        shape = np.broadcast_shapes(*(a.shape for a in args))
        assert {leaf.shape for leaf in jax.tree.leaves(jax.eval_shape(f, *args))} == {shape}, name

"""The functions of `jax.nn`, `jax.scipy.special` and `jax.scipy.stats`: which there are, and where to evaluate them."""

from __future__ import annotations

import inspect
import types
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.nn
import jax.numpy as jnp
import jax.scipy.special
import jax.scipy.stats
import numpy as np

NOT_ELEMENTWISE = {
    "nn.dot_product_attention": "a product of matrices",
    "nn.get_scaled_dot_general_config": "gives no array",
    "nn.glu": "halves an axis",
    "nn.log_softmax": "works along an axis",
    "nn.logmeanexp": "works along an axis",
    "nn.logsumexp": "works along an axis",
    "nn.one_hot": "adds an axis",
    "nn.scaled_dot_general": "a product of matrices",
    "nn.scaled_matmul": "a product of matrices",
    "nn.softmax": "works along an axis",
    "nn.standardize": "works along an axis",
    "special.bernoulli": "a table of the first n numbers",
    "special.log_softmax": "works along an axis",
    "special.logsumexp": "works along an axis",
    "special.softmax": "works along an axis",
    "special.bessel_jn": "adds an axis, one entry for each order",
    "special.sph_harm_y": "complex results, and orders as an array of one length",
    "stats.dirichlet.logpdf": "works along an axis",
    "stats.dirichlet.pdf": "works along an axis",
    "stats.mode": "works along an axis",
    "stats.multinomial.logpmf": "works along an axis",
    "stats.multinomial.pmf": "works along an axis",
    "stats.multivariate_normal.logpdf": "a factorisation of a matrix",
    "stats.multivariate_normal.pdf": "a factorisation of a matrix",
    "stats.rankdata": "sorts",
    "stats.sem": "works along an axis",
}
"""Functions that are not of one point alone, and why."""

GAPS = {
    "special.dawsn": "scan",
    "special.erfcx": "scan",
    "special.exp1": "while",
    "special.expi": "scan",
    "special.expn": "while",
    "special.fresnel": "scan",
    "special.hyp1f1": "while",
    "special.hyp2f1": "while",
    "special.ndtri": "scan",
    "special.owens_t": "dot_general",
    "special.sici": "scan",
    "special.spence": "scan",
    "special.wofz": "complex64",
    "stats.norm.isf": "scan",
    "stats.norm.ppf": "scan",
}
"""Elementwise functions that juju cannot compile yet, and a primitive it has no rule for. Lines may only go."""

KERNELS = {
    "nn.identity": (0, 1),
    "special.beta": (2, 1),
    "special.gamma": (2, 1),
    "special.gammasgn": (2, 1),
    "special.poch": (2, 1),
    "special.zeta": (1, 11),
    "stats.poisson.entropy": (3, 3),
    "stats.truncnorm.cdf": (3, 3),
    "stats.truncnorm.logcdf": (3, 3),
    "stats.truncnorm.logpdf": (2, 2),
    "stats.truncnorm.logsf": (3, 3),
    "stats.truncnorm.pdf": (2, 2),
    "stats.truncnorm.sf": (3, 3),
}
"""Where a function and its gradient are not one kernel each: they stack arrays and reduce what they stacked."""

STATIC = {"special.multigammaln": {"d": 3}}
"""Arguments that are no arrays."""

VARIANTS = {"nn.gelu": {"exact": {"approximate": False}}, "special.log_ndtr": {"order 5": {"series_order": 5}}}
"""Options under which a function is another one."""

RANGES: dict[str, tuple[float, float]] = {
    "p": (0, 1),
    "q": (0, 1),
    "c": (0, 1),
    "lmbda": (-2, 2),
    **dict.fromkeys(("a", "b", "df", "beta", "kappa", "mu", "n", "N", "alpha"), (0.1, 9)),
}
"""Where the arguments that are no points lie, by name. Points are between -6 and 6, half of them in (0, 1)."""

DOMAINS = {"special.zeta": {"x": (1.1, 9), "q": (0.1, 9)}}
"""Ranges of the arguments of single functions: zeta is NaN for x below 1, and its gradient is noise there."""

COUNTS = {"k", "n", "N"}
"""Arguments that are whole numbers."""

EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1e-10, -1e-10, 100.0, -100.0, 1e10]

RANDOM = 300

STEPWISE = ("special.gammainc", "stats.gamma.", "stats.chi2.", "stats.poisson.cdf")
"""Functions whose loop in JAX takes as many steps as an argument is large, if it ends."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function of the three modules by name: `nn.relu`, `special.erf`, `stats.norm.pdf`."""
    for label, module in (("nn", jax.nn), ("special", jax.scipy.special), ("stats", jax.scipy.stats)):
        for name, value in sorted(vars(module).items()):
            if name.startswith("_"):
                continue
            if _is_function(value):
                yield f"{label}.{name}", value
            elif label == "stats" and isinstance(value, types.ModuleType):
                for inner, function in sorted(vars(value).items()):
                    if not inner.startswith("_") and _is_function(function):
                        yield f"{label}.{name}.{inner}", function


def _is_function(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value) and not isinstance(value, types.ModuleType)


def elementwise() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The elementwise functions with their static arguments bound, and their variants."""
    for name, function in functions():
        if name in NOT_ELEMENTWISE:
            continue
        bound = partial(function, **STATIC[name]) if name in STATIC else function
        yield name, bound
        for label, options in VARIANTS.get(name, {}).items():
            yield f"{name} {label}", partial(bound, **options)


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that are arrays: those without a default, and `loc`, `scale` and `q`."""
    static = set(function.keywords) if isinstance(function, partial) else set()
    return [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.name not in static and (p.default is p.empty or p.name in ("loc", "scale", "q"))
    ]


def points(name: str, function: Callable[..., Any], dtype: str) -> list[np.ndarray]:
    """The arguments: `RANDOM` points, then edge values for each argument beside random others, and pairs of them.

    `loc` and `scale` are of rank 0.
    """
    names = parameters(function)
    arrays = [n for n in names if n not in ("loc", "scale")]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    domain = DOMAINS.get(name, {})
    columns = {n: [rng.uniform(*domain[n], RANDOM) if n in domain else _random(n, rng, RANDOM)] for n in arrays}
    edges = np.array([x for x in EDGES if abs(x) <= 100] if name.startswith(STEPWISE) else EDGES)
    for n in arrays:
        for other in arrays:
            columns[other].append(edges if n == other else _random(other, rng, edges.size))
    if len(arrays) >= 2:
        for other in arrays[2:]:
            columns[other].append(_random(other, rng, edges.size**2))
        first, second = np.meshgrid(edges, edges)
        columns[arrays[0]].append(first.ravel())
        columns[arrays[1]].append(second.ravel())
    given = {n: np.concatenate(parts).astype(jnp.dtype(dtype)) for n, parts in columns.items()}
    if name == "special.polygamma":  # takes whole numbers only
        given["n"] = np.resize(np.arange(6), given["x"].size).astype(np.int32)
    scalars = {"loc": 0.25, "scale": 1.75}
    return [given[n] if n in given else np.array(scalars[n], jnp.dtype(dtype)) for n in names]


def _random(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    if name == "k":
        return rng.integers(0, 12, count).astype(float)
    if name in COUNTS:
        return rng.integers(1, 20, count).astype(float)
    if name in RANGES:
        return rng.uniform(*RANGES[name], count)
    return np.where(rng.random(count) < 0.5, rng.uniform(-6, 6, count), rng.uniform(0, 1, count))


def gradient(function: Callable[..., Any], args: list[np.ndarray]) -> Callable[..., Any] | None:
    """The gradient at every point for all arguments that JAX can differentiate by; None if there are none."""
    axes = [0 if np.ndim(a) else None for a in args]
    possible = []
    for n, arg in enumerate(args):
        if not jnp.issubdtype(arg.dtype, jnp.floating):
            continue
        try:
            jax.eval_shape(jax.vmap(jax.grad(function, n), axes), *args)
        except (ValueError, TypeError, NotImplementedError):
            continue
        possible.append(n)
    return jax.vmap(jax.grad(function, tuple(possible)), axes) if possible else None

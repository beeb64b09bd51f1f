"""Single functions beside jax.jit: every elementary and special function in every float type.

    python benchmarks/functions.py [--points 1M] [--dtypes f32 f64 bf16 f16] [--only sin gamma] [--check] [--plot DIR]

With `--check` the exit status is 1 if a function misses its bar.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contest import Entry, chosen, plot, race
from copy_bandwidth import size
from jax import lax
from jax.scipy import special

DTYPES = {"f32": jnp.float32, "f64": jnp.float64, "bf16": jnp.bfloat16, "f16": jnp.float16}

Interval = tuple[float, float]

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Interval, ...], float]] = {
    "sin": (jnp.sin, ((-100, 100),), 15),
    "cos": (jnp.cos, ((-100, 100),), 15),
    "sin and cos": (lambda x: (jnp.sin(x), jnp.cos(x)), ((-100, 100),), 18),
    "tan": (jnp.tan, ((-100, 100),), 6),
    "asin": (jnp.arcsin, ((-1, 1),), 10),
    "acos": (jnp.arccos, ((-1, 1),), 10),
    "atan": (jnp.arctan, ((-10, 10),), 10),
    "atan2": (jnp.arctan2, ((-5, 5), (-5, 5)), 8),
    "pow": (jnp.power, ((0.1, 10), (-3, 3)), 2.5),
    "rem": (lax.rem, ((-100, 100), (0.5, 9)), 10),
    "lgamma": (lax.lgamma, ((0.1, 30),), 4),
    "digamma": (lax.digamma, ((0.1, 30),), 4),
    "erf_inv": (lax.erf_inv, ((-1, 1),), 2),
    "rsqrt": (lax.rsqrt, ((0.01, 100),), 4),
    "logistic": (lax.logistic, ((-10, 10),), 1.5),
    "expm1": (jnp.expm1, ((-5, 5),), 1.5),
    "log1p": (jnp.log1p, ((-0.9, 50),), 1.5),
    "exp": (jnp.exp, ((-20, 20),), 1),
    "exp2": (jnp.exp2, ((-20, 20),), 1),
    "log": (jnp.log, ((0.001, 1000),), 1),
    "tanh": (jnp.tanh, ((-5, 5),), 1),
    "erf": (lax.erf, ((-4, 4),), 1),
    "erfc": (lax.erfc, ((-4, 4),), 1),
    "sqrt": (jnp.sqrt, ((0, 100),), 1),
    "cbrt": (jnp.cbrt, ((-100, 100),), 1),
    "sinh": (jnp.sinh, ((-5, 5),), 1),
    "cosh": (jnp.cosh, ((-5, 5),), 1),
    "asinh": (jnp.arcsinh, ((-50, 50),), 1),
    "acosh": (jnp.arccosh, ((1, 50),), 1),
    "atanh": (jnp.arctanh, ((-1, 1),), 1),
    "bessel_i0e": (special.i0e, ((-20, 20),), 1),
    "bessel_i1e": (special.i1e, ((-20, 20),), 1),
    "igamma": (special.gammainc, ((0.5, 10), (0.5, 10)), 1),
    "betainc": (special.betainc, ((0.5, 5), (0.5, 5), (0.05, 0.95)), 1),
    "zeta": (special.zeta, ((1.5, 8), (0.5, 8)), 1),
}
"""The function, the intervals its arguments are drawn from, and its bar for float32."""

CHAINS = {
    "x * 2 + 1": lambda x: x * 2 + 1,
    "x * sigmoid(x)": jax.nn.silu,
    "tanh(x)**2 + exp(-x * x)": lambda x: jnp.tanh(x) ** 2 + jnp.exp(-x * x),
    "log1p(exp(x)) - 1": lambda x: jnp.log1p(jnp.exp(x)) - 1,
}
"""Chains that 16-bit floats must run at twice the speed of jax.jit."""


def entries(label: str, points: int) -> list[Entry]:
    dtype = DTYPES[label]
    rng = np.random.default_rng(0)

    def draw(low: float, high: float) -> jax.Array:
        return jnp.asarray(rng.uniform(low, high, points), dtype)

    half = label in ("bf16", "f16")
    found = []
    for name, (function, intervals, bar) in FUNCTIONS.items():
        arguments = tuple(draw(*interval) for interval in intervals)
        found.append(Entry(name, function, arguments, bar if label == "f32" else None if half else 1.0))
    if half:
        found += [Entry(name, function, (draw(-4, 4),), 2.0) for name, function in CHAINS.items()]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=size, default=1 << 20, metavar="N")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["f32", "f64"], help="default: f32 f64")
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--plot", type=Path, help="write a chart for each type into this folder (needs matplotlib)")
    options = parser.parse_args()

    missed = False
    for label in options.dtypes:
        print(f"\n{label}, {options.points:,} points")
        with jax.enable_x64(label == "f64"):
            results = race(chosen(entries(label, options.points), options.only), options.rounds)
        missed |= any(not r.met for r in results)
        if options.plot:
            options.plot.mkdir(parents=True, exist_ok=True)
            plot(results, options.plot / f"functions-{label}.png", f"functions of {options.points:,} points, {label}")
    return int(options.check and missed)


if __name__ == "__main__":
    sys.exit(main())

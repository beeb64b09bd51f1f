"""Whole functions beside jax.jit: the table of the README, and a chart.

    python benchmarks/programs.py [--points 1M] [--rounds 31] [--plot speed.png] [--only gelu adam]

Both sides run in one process and take turns; times are medians. "limit" is the time a copy of as many bytes takes on
all cores (measured here), so "to limit" says how far a kernel is from being bound by memory alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from copy_bandwidth import Copy, size
from jax.scipy.stats import norm

import juju
from juju._machine import cores
from juju.engines.trampoline import trampoline


def black_scholes(spot, strike, years, rate, volatility):
    spread = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    return spot * norm.cdf(d1) - strike * jnp.exp(-rate * years) * norm.cdf(d1 - spread)


def greeks(*market):
    return jax.grad(lambda *m: black_scholes(*m).sum(), argnums=(0, 1, 2, 3, 4))(*market)


def haversine(lat1, lon1, lat2, lon2):
    a = jnp.sin((lat2 - lat1) / 2) ** 2 + jnp.cos(lat1) * jnp.cos(lat2) * jnp.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * jnp.arctan2(jnp.sqrt(a), jnp.sqrt(1 - a))


def adam(params, grads, mean, var, step):
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    var = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, var, grads)
    fix1, fix2 = 1 - 0.9**step, 1 - 0.999**step
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / fix1) / (jnp.sqrt(v / fix2) + 1e-8), params, mean, var)
    return new, mean, var


def brighten(image, gain):
    return jnp.clip(image.astype(jnp.float32) * gain, 0, 255).astype(jnp.uint8)


def programs(n: int) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def uniform(low: float, high: float, count: int = n, dtype: Any = jnp.float32) -> jax.Array:
        return jnp.asarray(rng.uniform(low, high, count), dtype)

    def tree(low: float, high: float) -> list[jax.Array]:
        return [uniform(low, high, n // 20 + k) for k in range(20)]

    market = (uniform(50, 150), uniform(50, 150), uniform(0.1, 2), uniform(0.01, 0.1), uniform(0.1, 0.6))
    x = uniform(-4, 4)
    return {
        "x * 2 + 1": (lambda x: x * 2 + 1, (x,)),
        "sin((x + y)**2)": (lambda x, y: jnp.sin((x + y) ** 2), (x, uniform(-4, 4))),
        "Black-Scholes": (black_scholes, market),
        "its five derivatives": (greeks, market),
        "GELU": (jax.nn.gelu, (x,)),
        "GELU derivative": (jax.vmap(jax.grad(jax.nn.gelu)), (x,)),
        "SiLU": (jax.nn.silu, (x,)),
        "softplus": (jax.nn.softplus, (x,)),
        "SiLU, bfloat16": (jax.nn.silu, (x.astype(jnp.bfloat16),)),
        "Adam, 20 arrays": (adam, (tree(-1, 1), tree(-1, 1), tree(-1, 1), tree(0, 1), jnp.float32(7))),
        "haversine": (haversine, (uniform(-1.5, 1.5), uniform(-3, 3), uniform(-1.5, 1.5), uniform(-3, 3))),
        "brighten, uint8": (brighten, (uniform(0, 255, n, jnp.uint8), jnp.float32(1.3))),
        "i // 7, i % 7": (lambda i: (i // 7, i % 7), (uniform(-1e6, 1e6, n, jnp.int32),)),
    }


def interleaved(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 3):
        for name, run in runs.items():
            start = time.perf_counter()
            result = run()
            elapsed = time.perf_counter() - start
            del result
            if turn >= 3:
                times[name].append(elapsed)
    return {name: statistics.median(samples) for name, samples in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--points", type=size, default=1 << 20, metavar="N")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--plot", type=Path, help="write a chart to this file (needs matplotlib)")
    options = parser.parse_args()

    chosen = {
        name: program
        for name, program in programs(options.points).items()
        if not options.only or any(part.lower() in name.lower() for part in options.only)
    }
    lowered = [juju.fuse(f, name="f").lower(*args) for f, args in chosen.values()]
    print(f"compiling {len(lowered)} functions", file=sys.stderr, flush=True)
    compiled = juju.compile_all(lowered)
    trampoline().open_graph(wait=True)
    print(f"{options.points} points, {cores()} cores, {options.rounds} rounds in turn; milliseconds, medians\n")
    print(f"{'':>22} {'juju':>8} {'jax.jit':>8} {'ratio':>6} {'limit':>8} {'to limit':>9} {'difference':>11}")
    ratios = {}
    for (name, (f, args)), exe in zip(chosen.items(), compiled, strict=True):
        leaves = jax.tree_util.tree_leaves(args)
        jitted = jax.jit(f)
        difference = max(
            map(_difference, *(jax.tree_util.tree_leaves(r) for r in (exe.call_flat(leaves), jitted(*args))))
        )
        moved = exe.cost_analysis()["bytes"]
        copy = Copy(np.ones(max(moved // 2, 1), np.uint8), cores())
        runs = {
            "juju": lambda exe=exe, leaves=leaves: exe.call_flat(leaves),
            "jax.jit": lambda jitted=jitted, args=args: jax.block_until_ready(jitted(*args)),
            "limit": copy,
        }
        times = interleaved(runs, options.rounds)
        ratios[name] = times["jax.jit"] / times["juju"]
        print(
            f"{name:>22} {times['juju'] * 1e3:8.3f} {times['jax.jit'] * 1e3:8.3f} {ratios[name]:6.2f} "
            f"{times['limit'] * 1e3:8.3f} {times['juju'] / times['limit']:9.2f} {difference:11.1e}",
            flush=True,
        )
    if options.plot:
        _plot(ratios, options.points, options.plot)
        print(f"\nchart: {options.plot}")
    return 0


def _difference(a: jax.Array, b: jax.Array) -> float:
    """The largest difference, in parts of the largest value."""
    wide = [np.asarray(v).astype(np.float64) for v in (a, b)]
    scale = np.max(np.abs(wide[1]), initial=1e-30)
    return float(np.max(np.abs(wide[0] - wide[1]), initial=0) / scale)


def _plot(ratios: dict[str, float], points: int, file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, values = list(ratios)[::-1], list(ratios.values())[::-1]
    figure, axes = pyplot.subplots(figsize=(7, 0.38 * len(names) + 1.2), layout="constrained")
    bars = axes.barh(names, values, color=["#3b7dd8" if v >= 1 else "#c8553d" for v in values])
    axes.bar_label(bars, [f"{v:.1f}" for v in values], padding=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel(f"times as fast as jax.jit, {points:,} points, {cores()} cores")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.1)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    sys.exit(main())

"""Functions raced against jax.jit: what the benchmarks of programs and of single functions share.

Both sides run in one process and take turns; times are medians. The limit of a function is the larger of two: the time
a copy of as many bytes takes on all cores, and its operations over the measured peak.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from copy_bandwidth import Copy

import juju
from juju._machine import cores
from juju.engines.trampoline import trampoline


@dataclass(frozen=True)
class Entry:
    """A function with its arguments; `bar` is the least ratio to jax.jit that counts as met, if there is one."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    bar: float | None = None


@dataclass(frozen=True)
class Result:
    """Seconds of both sides and of the limit, kernels used, and the largest difference in parts of the largest."""

    entry: Entry
    juju: float
    jit: float
    limit: float
    kernels: int
    difference: float

    @property
    def ratio(self) -> float:
        return self.jit / self.juju

    @property
    def met(self) -> bool:
        return self.entry.bar is None or self.ratio >= self.entry.bar


def interleaved(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Medians of `rounds` runs of each, in turn, after three that do not count."""
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


def peak_operations(dtype: Any = jnp.float32) -> float:
    """Operations a second on all cores: four chains of multiply-adds beside four of additions, of 2**19 points.

    A multiply-add counts as one, as in the costs of the scalar-op table.
    """
    steps, points = 24, 1 << 19
    x = jnp.linspace(-0.5, 0.5, points, dtype=dtype)

    def chains(x):
        products = [x + k for k in range(4)]
        sums = [x - k for k in range(4)]
        for _ in range(steps):
            products = [total * x + 0.25 for total in products]
            sums = [total + x for total in sums]
        return sum(products) + sum(sums)

    exe = juju.fuse(chains).lower(x).compile()
    return 8 * steps * points / interleaved({"chains": lambda: exe.call_flat([x])}, 15)["chains"]


def race(entries: list[Entry], rounds: int) -> list[Result]:
    """Compiles everything at once, then lets each entry take turns with jax.jit and a copy; prints a line for each."""
    lowered = [juju.fuse(e.function, name="f").lower(*e.arguments) for e in entries]
    print(f"compiling {len(lowered)} functions", file=sys.stderr, flush=True)
    compiled = juju.compile_all(lowered)
    trampoline().open_graph(wait=True)
    peak = peak_operations()
    print(f"{cores()} cores, {rounds} rounds in turn; {peak / 1e9:.0f}G operations/s; milliseconds, medians\n")
    print(
        f"{'':>26} {'juju':>8} {'jax.jit':>8} {'ratio':>7} {'bar':>5}   {'limit':>8} {'to limit':>8} {'difference':>11}"
    )
    results = []
    for entry, exe in zip(entries, compiled, strict=True):
        leaves = jax.tree_util.tree_leaves(entry.arguments)
        jitted = jax.jit(entry.function)
        difference = max(
            map(_difference, *(jax.tree_util.tree_leaves(r) for r in (exe.call_flat(leaves), jitted(*entry.arguments))))
        )
        analysis = exe.cost_analysis()
        runs = {
            "juju": lambda exe=exe, leaves=leaves: exe.call_flat(leaves),
            "jax.jit": lambda jitted=jitted, entry=entry: jax.block_until_ready(jitted(*entry.arguments)),
            "copy": Copy(np.ones(max(analysis["bytes"] // 2, 1), np.uint8), cores()),
        }
        times = interleaved(runs, rounds)
        limit = max(times["copy"], analysis["flops"] / peak)
        result = Result(entry, times["juju"], times["jax.jit"], limit, len(exe.kernels), difference)
        results.append(result)
        bar = f"{entry.bar:5.1f}" if entry.bar is not None else " " * 5
        print(
            f"{entry.name:>26} {result.juju * 1e3:8.3f} {result.jit * 1e3:8.3f} {result.ratio:7.2f} {bar}"
            f" {' ' if result.met else '<'} {limit * 1e3:8.3f} {result.juju / limit:8.2f} {difference:11.1e}",
            flush=True,
        )
    missed = [r.entry.name for r in results if not r.met]
    if missed:
        print(f"\nbelow their bars: {', '.join(missed)}")
    return results


def arguments(description: str, rounds: int) -> argparse.ArgumentParser:
    """The options that every contest has."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="+", default=[], help="names, or parts of them")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    parser.add_argument("--plot", type=Path, help="write a chart to this file (needs matplotlib)")
    return parser


def chosen(entries: list[Entry], only: list[str]) -> list[Entry]:
    """The entries whose names hold one of the given parts; all, if none is given."""
    return [e for e in entries if not only or any(part.lower() in e.name.lower() for part in only)]


def contest(entries: list[Entry], options: argparse.Namespace, title: str) -> int:
    """Races what was chosen, plots it if that was asked for, and returns the exit status."""
    results = race(chosen(entries, options.only), options.rounds)
    if options.plot:
        plot(results, options.plot, title)
    return int(options.check and any(not r.met for r in results))


def plot(results: list[Result], file: Path, title: str) -> None:
    """A bar for each entry: how many times as fast as jax.jit; a tick where its bar stands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names, values = [r.entry.name for r in results][::-1], [r.ratio for r in results][::-1]
    figure, axes = pyplot.subplots(figsize=(7, 0.3 * len(names) + 1.2), layout="constrained")
    bars = axes.barh(names, values, color=["#3b7dd8" if v >= 1 else "#c8553d" for v in values])
    axes.bar_label(bars, [f"{v:.1f}" for v in values], padding=3)
    for place, result in enumerate(reversed(results)):
        if result.entry.bar is not None:
            axes.plot([result.entry.bar] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.5)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel(f"times as fast as jax.jit ({cores()} cores; black: what is asked)")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12, y=0.01)
    figure.savefig(file, dpi=150)
    print(f"\nchart: {file}")


def _difference(a: jax.Array, b: jax.Array) -> float:
    """The largest difference, in parts of the largest value; NaN on one side only counts as infinite."""
    wide = [np.asarray(v).astype(np.float64) for v in (a, b)]
    if not np.array_equal(np.isnan(wide[0]), np.isnan(wide[1])):
        return float("inf")
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    scale = np.max(np.abs(wide[1][finite]), initial=1e-30)
    return float(np.max(np.abs(wide[0][finite] - wide[1][finite]), initial=0) / scale)

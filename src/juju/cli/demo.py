"""`juju demo`: real functions, each beside `jax.jit`: kernels, agreement, time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import click
from rich.rule import Rule
from rich.text import Text

from juju.cli._console import BuildProgress, Waiting, err, out, print_code, seconds_text
from juju.cli._group import CommandLineError, JujuCommand

POINTS = 1 << 20
TOLERANCE = 1e-5
"""Largest accepted difference from jax.jit, in parts of the largest value of the result."""
DISAGREE = "{names}: results differ from jax.jit by more than {tolerance:g}; please report this with `juju doctor`"
OTHER_TYPE = "a result of juju has another structure, shape or dtype than jax.jit's; please report this"
ROW = "{name:<24} {kernels:>7} {difference:>11} {ours:>9} {theirs:>9} {ratio:>8}  {compiled}"


@dataclass(frozen=True)
class Case:
    """One function of the demo, and the arguments it is called with."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """What was measured for a case. `ours` and `theirs` are median seconds of one call."""

    kernels: int
    difference: float
    ours: float
    theirs: float


@click.command(cls=JujuCommand, examples=("juju demo", "juju demo --points 1000000", "NO_COLOR=1 juju demo | tee log"))
@click.option("--points", default=POINTS, show_default=True, type=click.IntRange(1), help="Size of the arrays.")
def demo(points: int) -> None:
    """Fuse a few real functions and run each beside jax.jit.

    Printed for each: how many kernels it became, the largest difference from jax.jit (in parts of the largest value),
    the median time of a call of both, interleaved, and the time of the compiler run that built it with all other new
    ones, or 'cached'.
    """
    with Waiting("starting JAX"):
        import juju
        from juju.engines.trampoline import graph_file

    start = time.perf_counter()
    cases = make_cases(points)
    with Waiting(f"tracing {len(cases)} functions"):
        lowered = [juju.fuse(case.function).lower(*case.args) for case in cases]
    with BuildProgress() as progress:
        compiled = juju.compile_all(lowered, progress=progress)
        graph_file(progress)  # a build in the background would disturb the times
    _title(f"{len(cases)} functions of {points:,} points")
    heads = {"name": "function", "kernels": "kernels", "difference": "difference", "ours": "juju", "theirs": "jax.jit"}
    out().print(Text(ROW.format(**heads, ratio="speed", compiled="compiled"), style="bold"), soft_wrap=True)
    wrong = []
    for case, exe in zip(cases, compiled, strict=True):
        with Waiting(f"running {case.name}") if err().is_terminal else nullcontext():
            outcome = measure(case, exe)
        wrong += [case.name] if outcome.difference > TOLERANCE else []
        out().print(_row(case, exe, outcome), soft_wrap=True)
    _title(f"the kernel of {cases[0].name}")
    print_code(lowered[0].as_text("mojo"), "mojo")
    _title(f"done in {seconds_text(time.perf_counter() - start)}")
    if wrong:
        raise CommandLineError(DISAGREE.format(names=", ".join(wrong), tolerance=TOLERANCE))


def make_cases(points: int) -> list[Case]:
    """The functions of the demo with arguments of `points` numbers. The same numbers every time."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    def square_sine(x, y):
        return jnp.sin((x + y) ** 2)

    def black_scholes(spot, strike, years, rate, volatility):
        spread = volatility * jnp.sqrt(years)
        d1 = (jnp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
        return spot * cdf(d1) - strike * jnp.exp(-rate * years) * cdf(d1 - spread)

    def cdf(x):
        return 0.5 * (1 + jax.lax.erf(x / np.sqrt(2.0)))

    def greeks(*market):
        return jax.grad(lambda *m: black_scholes(*m).sum(), argnums=(0, 1, 2, 3, 4))(*market)

    def gelu(x):
        return jax.nn.gelu(x)

    def adam(params, grads, state, step):
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
        var = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["var"], grads)
        fix1, fix2 = 1 - 0.9**step, 1 - 0.999**step
        new = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / fix1) / (jnp.sqrt(v / fix2) + 1e-8), params, mean, var)
        return new, {"mean": mean, "var": var}

    rng = np.random.default_rng(0)

    def uniform(low: float, high: float) -> Any:
        return jnp.asarray(rng.uniform(low, high, points).astype(np.float32))

    def tree(low: float, high: float) -> Any:
        wide = max(points // 1024, 1)
        sizes = {"weights": (wide, 1024), "bias": (1024,), "scale": ()}
        return {k: jnp.asarray(rng.uniform(low, high, shape).astype(np.float32)) for k, shape in sizes.items()}

    market = (uniform(50, 150), uniform(50, 150), uniform(0.1, 2), uniform(0.0, 0.1), uniform(0.1, 0.6))
    moments = {"mean": tree(-0.1, 0.1), "var": tree(0, 0.01)}
    return [
        Case("sin((x+y)**2)", square_sine, (uniform(0, 3), uniform(0, 3))),
        Case("Black-Scholes", black_scholes, market),
        Case("gradient of it", greeks, market),
        Case("GELU", gelu, (uniform(-4, 4),)),
        Case("Adam over a pytree", adam, (tree(-1, 1), tree(-1, 1), moments, jnp.float32(10.0))),
    ]


def measure(case: Case, exe: Any, seconds: float = 0.5) -> Outcome:
    """Runs `exe` and `jax.jit` of the case in turns for about `seconds`; compares their results first."""
    import jax

    jitted = jax.jit(case.function)
    expected = jax.block_until_ready(jitted(*case.args))
    difference = largest_difference(jax.block_until_ready(exe(*case.args)), expected)
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, record in zip((exe, jitted), times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(function(*case.args))
            record.append(time.perf_counter() - start)
    ours, theirs = map(statistics.median, times)
    return Outcome(exe.cost_analysis()["kernels"], difference, ours, theirs)


def largest_difference(actual: Any, expected: Any) -> float:
    """The largest difference over all leaves, each in parts of the largest value of its leaf; a NaN or an infinity on
    one side only counts as infinite.

    Raises:
        CommandLineError: trees, shapes or dtypes differ.
    """
    import jax
    import numpy as np

    if jax.tree.map(_type_text, actual) != jax.tree.map(_type_text, expected):
        raise CommandLineError(OTHER_TYPE)
    worst = 0.0
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        a, e = np.asarray(one, np.float64), np.asarray(other, np.float64)
        differ = ~((a == e) | (np.isnan(a) & np.isnan(e)))
        scale = float(np.max(np.abs(e), initial=0.0, where=np.isfinite(e))) or 1.0
        gaps = np.abs(a[differ] - e[differ]) / scale
        worst = max(worst, float(np.max(np.where(np.isfinite(gaps), gaps, np.inf), initial=0.0)))
    return worst


def _type_text(leaf: Any) -> str:
    return f"{leaf.dtype}{leaf.shape}"


def _row(case: Case, exe: Any, outcome: Outcome) -> Text:
    compiled = "cached" if exe.cache_hit else f"in {seconds_text(exe.compile_seconds)}"
    ratio = outcome.theirs / outcome.ours
    line = ROW.format(
        name=case.name,
        kernels=outcome.kernels,
        difference=f"{outcome.difference:.1e}",
        ours=seconds_text(outcome.ours),
        theirs=seconds_text(outcome.theirs),
        ratio=f"{ratio:.2f}x",
        compiled=compiled,
    )
    text = Text(line)
    text.highlight_regex(r"\d+\.\d\dx", "green" if ratio >= 1 else "yellow")
    if outcome.difference > TOLERANCE:
        text.stylize("red")
    return text


def _title(text: str) -> None:
    console = out()
    if console.is_terminal:
        console.print(Rule(text, style="dim"))
    else:
        console.print(f"\n== {text} ==", highlight=False)

"""Writes docs/accuracy.md: the largest error of every inexact operation beside that of `jax.jit`, subnormal numbers.

python tools/accuracy_page.py           # `make accuracy`; some minutes
python tools/accuracy_page.py --quick   # fewer points, printed and not written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import subnormals
from jax import lax
from scipy import special

import juju
from juju.dialect.table import ROWS, TABLE, Row

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
sys.path.insert(0, str(ROOT / "tests" / "math"))

from accuracy import ELEMENTARY, SPECIAL, TRIGONOMETRIC, Function, ulp_error  # noqa: E402

FLOATS = ("float32", "float64", "bfloat16", "float16")
HALVES = ("bfloat16", "float16")
POINTS = 1 << 16
POINTS_BY_MPMATH = 1 << 13
PAIRS = 1 << 18

Points = Callable[[str, bool], list[np.ndarray]]
"""The operands for a dtype, fewer of them if the flag is set."""


@dataclass(frozen=True)
class Operation:
    """A row of the table with its JAX function, its points and the exact results of these."""

    row: Row
    jax: Callable[..., Any]
    points: Points
    exact: Callable[..., np.ndarray]
    note: str = ""

    @property
    def bound(self) -> float | None:
        """The ulp stated for float32 and float64; None if the row promises what JAX does."""
        number, _, unit = self.row.accuracy.partition(" ")
        return float(number) if unit == "ulp" else None


@dataclass(frozen=True)
class Measured:
    """The largest errors over the points, in units of the last place, and where they are."""

    ours: float
    at: tuple[float, ...]
    theirs: float
    theirs_at: tuple[float, ...]
    points: int


def wide(a: np.ndarray) -> np.ndarray:
    """The numbers in a type that holds more of them: long double for float64, float64 for all others."""
    return a.astype(np.longdouble if a.dtype == np.float64 else np.float64)


# Points and exact results ---------------------------------------------------------------------------------------------


def every_value(dtype: str) -> np.ndarray:
    """All finite, normal numbers of a 16-bit type."""
    values = np.arange(1 << 16, dtype=np.uint16).view(jnp.dtype(dtype))
    size = np.abs(values.astype(np.float64))
    return values[np.isfinite(size) & (size >= float(jnp.finfo(dtype).tiny))]


def unary(function: Function) -> Operation:
    by_mpmath = function in SPECIAL

    def points(dtype: str, quick: bool) -> list[np.ndarray]:
        if dtype not in HALVES:
            count = POINTS_BY_MPMATH if by_mpmath and dtype == "float64" else POINTS
            return [function.points(dtype, 1 << 8 if quick else count)]
        x = every_value(dtype)
        size = np.abs(x.astype(np.float64))
        inside = (size >= function.domain[0]) & (size <= function.domain[1])
        if not function.signed:
            inside &= x.astype(np.float64) > 0
        x = x[inside]
        return [x[:: x.size // 512 + 1] if quick else x]

    return Operation(ROWS[function.name], function.jax, points, lambda x: _quiet(function.reference, wide(x)))


def _quiet(function: Callable[..., np.ndarray], *args: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return function(*args)


def _pairs(low: float, high: float, *, positive: bool = False) -> Points:
    """Two arrays of numbers between 2**low and 2**high, clipped to the type, of both signs."""

    def points(dtype: str, quick: bool) -> list[np.ndarray]:
        info = jnp.finfo(dtype)
        rng = np.random.default_rng(21)
        count = 1 << 10 if quick else PAIRS
        reach = max(low, float(np.log2(float(info.tiny)))), min(high, float(np.log2(float(info.max))))
        sizes = np.exp2(rng.uniform(*reach, (2, count)))
        signs = np.ones((2, count)) if positive else rng.choice([-1, 1], (2, count))
        return [v.astype(jnp.dtype(dtype)) for v in sizes * signs]

    return points


def _power_points(dtype: str, quick: bool) -> list[np.ndarray]:
    """Bases of every size and bases near 1, and exponents such that results span the range of the type."""
    info, rng = jnp.finfo(dtype), np.random.default_rng(6)
    count = 1 << 9 if quick else PAIRS // 2
    x = np.exp2(rng.uniform(np.log2(float(info.tiny)), np.log2(float(info.max)), count))
    near = 1 + np.exp2(rng.uniform(np.log2(float(info.eps)) + 2, -0.1, count)) * rng.choice([-1, 1], count)
    x = np.concatenate([x, near]).astype(jnp.dtype(dtype))
    reach = np.log2(float(info.max)) / np.abs(np.log2(x.astype(np.float64)) + 1e-30)
    y = rng.uniform(-1, 1, x.size) * np.minimum(reach, float(info.max) / 2)
    return [x, y.astype(jnp.dtype(dtype))]


def _arguments(count: int, make: Callable[[np.random.Generator, int], Sequence[np.ndarray]]) -> Points:
    """Points of an iterative function, fewer for float64, where mpmath is slow."""

    def points(dtype: str, quick: bool) -> list[np.ndarray]:
        number = min(40, count) if quick else count if dtype == "float64" else max(count, 1 << 14)
        return [v.astype(jnp.dtype(dtype)) for v in make(np.random.default_rng(12), number)]

    return points


def _by(scipy_function: Callable[..., np.ndarray] | None, mpmath_function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function for narrow types, mpmath's for float64 (and for all where SciPy has none)."""

    def exact(*args: np.ndarray) -> np.ndarray:
        if scipy_function is not None and args[0].dtype != np.float64:
            return _quiet(scipy_function, *(a.astype(np.float64) for a in args))
        with mpmath.workdps(40):
            values = [mpmath_function(*(mpmath.mpf(float(v)) for v in point)) for point in zip(*args, strict=True)]
            high = np.array([float(v) for v in values])
            low = np.array([float(v - mpmath.mpf(h)) for v, h in zip(values, high, strict=True)])
        return high.astype(np.longdouble) + low if args[0].dtype == np.float64 else high

    return exact


def _incomplete(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    a = np.exp2(rng.uniform(-6, 8, count))
    return [a, a * np.exp2(rng.uniform(-3, 2, count))]


def _lower(a, x):
    return mpmath.gammainc(a, 0, x, regularized=True)


def _upper(a, x):
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


def _lower_slope(a, x):
    return mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a)


def _beta_points(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [*np.exp2(rng.uniform(-4, 5, (2, count))), rng.uniform(0, 1, count)]


def _same(dtype: str, quick: bool) -> list[np.ndarray]:
    return [_pairs(-60, 60)(dtype, quick)[0]]


def operations() -> Iterator[Operation]:
    """Every row of the table that is not exact, except conversions."""
    everything = _pairs(-2000, 2000)
    for name in ("add", "add_any", "sub"):
        bind = lax.add if name != "sub" else lax.sub
        if name == "add_any":
            from jax.interpreters import ad

            bind = ad.add_jaxvals
        exact = np.subtract if name == "sub" else np.add
        yield Operation(ROWS[name], bind, _pairs(-8, 8), lambda x, y, f=exact: f(wide(x), wide(y)))
    yield Operation(ROWS["mul"], lax.mul, everything, lambda x, y: _quiet(np.multiply, wide(x), wide(y)))
    yield Operation(ROWS["div"], lax.div, everything, lambda x, y: _quiet(np.divide, wide(x), wide(y)))
    yield Operation(ROWS["square"], lax.square, _same, lambda x: wide(x) ** 2)
    yield Operation(
        ROWS["integer_pow"], lambda x: lax.integer_pow(x, 7), _same, lambda x: _quiet(np.power, wide(x), 7), "x ** 7"
    )
    yield Operation(ROWS["pow"], lax.pow, _power_points, lambda x, y: _quiet(np.power, wide(x), wide(y)))
    for function in ELEMENTARY + TRIGONOMETRIC:
        if function.name not in subnormals.NEWER:
            yield unary(function)
    yield Operation(ROWS["atan2"], lax.atan2, _pairs(-60, 60), lambda x, y: np.arctan2(wide(x), wide(y)))
    for function in SPECIAL:
        yield unary(function)
    iterative = (
        ("igamma", lax.igamma, _arguments(600, _incomplete), _by(special.gammainc, _lower)),
        ("igammac", lax.igammac, _arguments(600, _incomplete), _by(special.gammaincc, _upper)),
        ("igamma_grad_a", lax.igamma_grad_a, _few(_incomplete), _by(None, _lower_slope)),
        ("zeta", lax.zeta, _arguments(600, _zeta_points), _by(special.zeta, mpmath.zeta)),
        ("polygamma", lax.polygamma, _few(_polygamma_points), _by(None, lambda m, x: mpmath.polygamma(int(m), x))),
        (
            "regularized_incomplete_beta",
            lax.betainc,
            _arguments(300, _beta_points),
            _by(special.betainc, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)),
        ),
    )
    for name, function, points, exact in iterative:
        yield Operation(ROWS[name], function, points, exact)


def _few(make: Callable[[np.random.Generator, int], Sequence[np.ndarray]]) -> Points:
    """Points of a function that only mpmath has."""

    def points(dtype: str, quick: bool) -> list[np.ndarray]:
        return [v.astype(jnp.dtype(dtype)) for v in make(np.random.default_rng(12), 20 if quick else 300)]

    return points


def _zeta_points(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [1 + np.exp2(rng.uniform(-6, 5, count)), np.exp2(rng.uniform(-6, 10, count))]


def _polygamma_points(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    return [rng.integers(0, 10, count).astype(np.float64), np.exp2(rng.uniform(-3, 8, count))]


# Measuring ------------------------------------------------------------------------------------------------------------


def measure(dtypes: Sequence[str] = FLOATS, *, quick: bool = False) -> dict[tuple[str, str], Measured]:
    """The errors of every operation by name and dtype; all kernels are compiled together."""
    cases = [(operation, dtype) for operation in operations() for dtype in dtypes]
    with jax.enable_x64(True):
        points = {(o.row.name, dtype): o.points(dtype, quick) for o, dtype in cases}
        lowered = [juju.fuse(o.jax, name=o.row.name).lower(*points[o.row.name, dtype]) for o, dtype in cases]
        compiled = juju.compile_all(lowered)
        return {
            (o.row.name, dtype): _measure(o, dtype, run, points[o.row.name, dtype])
            for (o, dtype), run in zip(cases, compiled, strict=True)
        }


def _measure(operation: Operation, dtype: str, run: juju.Compiled, args: list[np.ndarray]) -> Measured:
    exact = operation.exact(*args)
    ours = ulp_error(np.asarray(run.call_flat([jnp.asarray(a) for a in args])), exact)
    theirs = ulp_error(np.asarray(jax.jit(operation.jax)(*args)), exact)
    a, b = int(ours.argmax()), int(theirs.argmax())
    return Measured(float(ours[a]), _point(args, a), float(theirs[b]), _point(args, b), exact.size)


def _point(args: Sequence[np.ndarray], index: int) -> tuple[float, ...]:
    return tuple(float(a[index]) for a in args)


# The page ------------------------------------------------------------------------------------------------------------

HEAD = """\
# Accuracy

The largest errors against exact results, in units of the last place (ulp), beside those of `jax.jit`, and the operands
at which they are. `make accuracy` writes this page; its numbers are of JAX {jax}.

* **float32 and float64**: at most 2 ulp for elementary functions; 4 for `tan`, `pow`, `lgamma`, `digamma`, `erf_inv`.
  Functions that iterate (incomplete gamma and beta functions, `zeta`, `polygamma`) and Bessel functions are as accurate
  as JAX's.
* **bfloat16 and float16** are computed in float32 and rounded once: at most 1 ulp.
* All other operations are exact or correctly rounded. NaN, infinities and the signs of zeros are those of `jax.jit`;
  the tests compare them.

Exact results come from float64 for narrower types, from long double for float64, and from mpmath for the special
functions of float64. Points of functions with one operand are spread over all exponents, and dense around every place
where the method changes; of the 16-bit types they are all values of the domain. Conversions (`convert_element_type`)
round as JAX's do, bit for bit, and are not in the tables. Primitives of later releases of JAX are not measured:
{newer}.
"""

TABLE_HEAD = """
## {dtype}

| operation | stated | juju | at | `jax.jit` | at | points |
|---|---|---|---|---|---|---|
"""

WORSE_HEAD = """
## Where juju is behind

Errors more than 1 ulp above those of `jax.jit`, with the reason.

"""

SUBNORMAL_HEAD = """
## Subnormal numbers

Kernels run with subnormal numbers flushed, as those of `jax.jit` do; but what only moves bits keeps them on either
side, and some functions come back to a small operand itself. **Read as**: whether a subnormal operand counts (`kept`)
or is taken as zero (`0`); `some`: it depends on the operands. **Written as**: the same for subnormal results. `-`: no
difference can be seen. The sides differ where the text is bold. float16 is computed in float32, where its subnormal
numbers are normal ones.

| dtype | read as: juju, `jax.jit` | written as: juju, `jax.jit` | operations |
|---|---|---|---|
"""

REASONS: dict[str, str] = {}
"""Why an operation is more than 1 ulp behind `jax.jit`, by `name dtype`."""


def page(errors: dict[tuple[str, str], Measured], lines: Sequence[subnormals.Line]) -> str:
    """The text of the page. Raises `KeyError` for an operation that is behind without a reason."""
    newer = ", ".join(f"`{name}` ({ROWS[name].accuracy})" for name in subnormals.NEWER)
    parts = [HEAD.format(jax=jax.__version__, newer=newer)]
    for dtype in FLOATS:
        parts.append(TABLE_HEAD.format(dtype=dtype))
        parts += [_line(name, m, dtype) for (name, d), m in errors.items() if d == dtype]
    behind = {f"{name} {dtype}": m for (name, dtype), m in errors.items() if m.ours > m.theirs + 1}
    parts.append(WORSE_HEAD)
    parts += [f"* `{key}`: {m.ours:.2f} and {m.theirs:.2f} ulp. {REASONS[key]}\n" for key, m in behind.items()]
    parts += ["Nowhere.\n"] if not behind else []
    parts.append(SUBNORMAL_HEAD)
    groups: dict[tuple[str, tuple[str, str], tuple[str, str]], list[str]] = {}
    for line in lines:
        if {*line.reads, *line.writes} != {subnormals.NONE}:
            groups.setdefault((line.dtype, line.reads, line.writes), []).append(line.operation)
    for (dtype, reads, writes), names in sorted(groups.items()):
        shown = [f"{a}, {b}" if a == b else f"**{a}, {b}**" for a, b in (reads, writes)]
        parts.append(f"| {dtype} | {shown[0]} | {shown[1]} | {', '.join(f'`{name}`' for name in names)} |\n")
    return "".join(parts)


def _line(name: str, m: Measured, dtype: str) -> str:
    row = ROWS[name]
    stated = "1 ulp" if dtype in HALVES and row.accuracy != "as JAX" else row.accuracy
    cells = (f"`{name}`", stated, _number(m.ours), _operands(m.at), _number(m.theirs), _operands(m.theirs_at))
    return f"| {' | '.join(cells)} | {m.points:,} |\n"


def _number(ulp: float) -> str:
    if not np.isfinite(ulp):
        return "not finite"
    return f"{ulp:.2f}" if ulp < 1000 else f"{ulp:.2g}"


def _operands(point: Sequence[float]) -> str:
    return ", ".join(f"{x:.9g}" for x in point)


def inexact() -> list[str]:
    """The rows of the table whose accuracy is to be on the page."""
    return [row.name for row in TABLE if row.accuracy != "exact" and row.name not in ("convert", *subnormals.NEWER)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    text = page(measure(quick=quick), subnormals.survey())
    print(text) if quick else PAGE.write_text(text)


if __name__ == "__main__":
    main()

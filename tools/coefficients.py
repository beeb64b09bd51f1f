"""Derives every polynomial of `juju_math` and writes `kernels/juju_math/coefficients.mojo`.

python tools/coefficients.py            # about a minute; rewrites the file
python tools/coefficients.py --check    # fails if the file would change
python tools/coefficients.py --only SIN # prints one family
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from minimax import Fit, Number, mp, rounded

TARGET = Path(__file__).resolve().parents[1] / "kernels" / "juju_math" / "coefficients.mojo"

HEADER = '''"""Polynomial coefficients. Written by tools/coefficients.py; do not edit.

Each list holds the coefficients of x**first, x**(first+step), ..., lowest first, rounded to the type it is for. The
comment states the function, the interval, and the largest relative error of the rounded polynomial there, by exact
arithmetic.
"""
'''

QUARTER = "pi/4+0.004"
"""The reduction of an angle picks the nearest multiple of pi/2 with an error that grows with the angle."""


def steps(first: int, count: int, step: int = 1) -> range:
    return range(first, first + count * step, step)


def families() -> dict[str, tuple[str, Fit]]:
    """Name of the list, then type and fit."""

    def both(name, function, low, high, first, counts, step=1, fixed=None, scale=None, about=""):
        f32, f64 = counts
        return {
            f"{name}_{kind.upper()}": (
                kind,
                Fit(name, function, low, high, steps(first, count, step), fixed or {}, scale, about),
            )
            for kind, count in (("f32", f32), ("f64", f64))
            if count
        }

    def power_of_two(x):
        return mp.mpf(2) ** x

    table = {}
    table |= both(
        "EXP", mp.expm1, "-log(2)/2", "log(2)", 2, (6, 11), 1, {1: 1}, mp.exp, "exp(x) - 1 - x, relative to exp(x)"
    )
    table |= both(
        "EXP2",
        lambda x: mp.expm1(x * mp.log(2)),
        "-0.5",
        "1",
        1,
        (7, 12),
        1,
        None,
        power_of_two,
        "2**x - 1, relative to 2**x",
    )
    table |= both("EXPM1", mp.expm1, "-log(2)/2", "log(2)/2", 2, (6, 11), 1, {1: 1}, None, "exp(x) - 1 - x")
    table |= both(
        "EXP2_NEAREST",
        lambda x: mp.expm1(x * mp.log(2)),
        "-0.5",
        "0.5",
        1,
        (6, 11),
        1,
        None,
        power_of_two,
        "2**x - 1, relative to 2**x",
    )
    table |= both("TANH", mp.tanh, "0", "0.55", 3, (5, 10), 2, {1: 1}, None, "tanh(x) - x")
    table |= both("SINH", mp.sinh, "0", "log(2)/2+0.0001", 3, (3, 5), 2, {1: 1}, None, "sinh(x) - x")
    table |= both("COSH", mp.cosh, "0", "log(2)/2+0.0001", 4, (2, 5), 2, {0: 1, 2: 0.5}, None, "cosh(x) - 1 - x**2/2")
    table |= both(
        "LOG", mp.log1p, "sqrt(0.5)-1", "sqrt(2)-1", 3, (8, 0), 1, {1: 1, 2: -0.5}, None, "log(1+x) - x + x**2/2"
    )
    table |= both(
        "ATANH",
        lambda s: 2 * mp.atanh(s),
        "0",
        "(sqrt(2)-1)/(sqrt(2)+1)",
        3,
        (0, 7),
        2,
        {1: 2},
        None,
        "2*atanh(x) - 2*x",
    )
    table |= both(
        "ATANH_POW",
        lambda s: 2 * mp.atanh(s),
        "0",
        "(sqrt(2)-1)/(sqrt(2)+1)",
        5,
        (0, 7),
        2,
        {1: 2, 3: "mpf(2)/3"},
        None,
        "2*atanh(x) - 2*x - 2/3*x**3, relative to 2*atanh(x)",
    )
    table |= both(
        "LOG2_HALFWAY",
        lambda x: mp.log1p(x) / mp.log(2),
        "sqrt(0.5)-1",
        "sqrt(2)-1",
        1,
        (0, 14),
        about="log2(1+x), for f32 powers",
    )
    table |= both("SIN", mp.sin, "0", QUARTER, 3, (3, 6), 2, {1: 1}, None, "sin(x) - x")
    table |= both("COS", mp.cos, "0", QUARTER, 4, (3, 6), 2, {0: 1, 2: -0.5}, None, "cos(x) - 1 + x**2/2")
    table |= both("TAN", mp.tan, "0", QUARTER, 3, (7, 14), 2, {1: 1}, None, "tan(x) - x")
    table |= both("ATAN", mp.atan, "0", "1", 3, (9, 20), 2, {1: 1}, None, "atan(x) - x")
    table |= both("ASIN", mp.asin, "0", "0.5", 3, (5, 12), 2, {1: 1}, None, "asin(x) - x")
    return table


def constants() -> dict[str, tuple[str, Number, int, str]]:
    """Name of the list, then type, value, number of parts, meaning. The parts add up to the value, each rounded."""
    table: dict[str, tuple[str, Number, int, str]] = {}
    for kind in ("f32", "f64"):
        suffix = kind.upper()
        table[f"LN2_{suffix}"] = (kind, mp.log(2), 2, "log(2)")
        table[f"LOG2E_{suffix}"] = (kind, 1 / mp.log(2), 2, "1/log(2)")
        table[f"HALF_PI_{suffix}"] = (kind, mp.pi / 2, 3, "pi/2")
        table[f"TWO_THIRDS_{suffix}"] = (kind, mp.mpf(2) / 3, 2, "2/3")
        table[f"TWO_OVER_PI_{suffix}"] = (kind, 2 / mp.pi, 1, "2/pi")
    with mp.workdps(450):
        two_over_pi = 2 / mp.pi
    table["TWO_OVER_PI_CHUNKS_F64"] = ("chunks", two_over_pi, 24, "2/pi; chunk k is scaled by 2**(53 k)")
    return table


def constant_text(name: str, kind: str, value: Number, parts: int, about: str) -> str:
    """The lines of one constant."""
    numbers = ""
    for _ in range(parts):
        if kind == "chunks":  # 53 bits each, cut off
            with mp.workdps(450):
                value *= 2**53
                part = mp.floor(value)
                value -= part
            numbers += f"    {float(part) / 2**53!r},\n"
            continue
        part = rounded(value, kind)
        numbers += f"    {part:.{9 if kind == 'f32' else 17}g},\n"
        value -= part
    return f"\n# {about}, the sum of {parts}\ncomptime {name}: List[Float64] = [\n{numbers}]\n"


def text(name: str, kind: str, fit: Fit) -> str:
    """The lines of one list."""
    coefficients, error = fit.solve(kind)
    digits = 9 if kind == "f32" else 17
    numbers = "".join(f"    {value:.{digits}g},\n" for value in coefficients)
    step = fit.exponents[1] - fit.exponents[0] if len(fit.exponents) > 1 else 1
    powers = f"x**{fit.exponents[0]}, ..., x**{fit.exponents[-1]}" + (f" by {step}" if step > 1 else "")
    comment = f"# {fit.about} on [{fit.low}, {fit.high}], {powers}: error 2**{math.log2(error):.1f}\n"
    return f"\n{comment}comptime {name}: List[Float64] = [\n{numbers}]\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if the file would change")
    parser.add_argument("--only", metavar="PREFIX", help="print the lists whose names start so, write nothing")
    options = parser.parse_args()
    chosen = {n: f for n, f in families().items() if n.startswith(options.only or "")}
    lists = [constant_text(name, *rest) for name, rest in constants().items() if name.startswith(options.only or "")]
    lists += [text(name, kind, fit) for name, (kind, fit) in chosen.items()]
    if options.only:
        print("".join(lists))
        return 0
    content = HEADER + "".join(lists)
    if options.check:
        return int(TARGET.read_text() != content)
    TARGET.write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())

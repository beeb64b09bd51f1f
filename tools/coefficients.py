"""Derives every polynomial of `juju_math` and writes `kernels/juju_math/coefficients.mojo`.

python tools/coefficients.py            # two minutes; rewrites the file
python tools/coefficients.py --check    # fails if the file would change
python tools/coefficients.py --only SIN # prints the lists whose names start so
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minimax import Fit, Function, Number, mp, rounded

FOLDER = Path(__file__).resolve().parents[1] / "kernels" / "juju_math"

HEADER = '''"""Polynomial coefficients. Written by tools/coefficients.py; do not edit.

Each list holds the coefficients of x**first, x**(first+step), ..., lowest first, rounded to the type it is for. The
comment states the function, the interval, and the largest relative error of the rounded polynomial there, by exact
arithmetic.
"""
'''

DIGAMMA_ZERO = "1.46163214496836234126265954232572132846819620400644635129598840860"


@dataclass(frozen=True)
class Family:
    """One polynomial for one or both types, each given by its interval and the number of coefficients."""

    name: str
    function: Function
    about: str
    f32: tuple[str, str, int] | None
    f64: tuple[str, str, int] | None
    first: int = 1
    step: int = 1
    fixed: Mapping[int, object] = field(default_factory=dict)
    scale: Function | None = None

    def lists(self) -> dict[str, tuple[str, Fit]]:
        """Name of the list, then the type and the fit."""
        found = {}
        for kind, domain in (("f32", self.f32), ("f64", self.f64)):
            if domain:
                low, high, count = domain
                exponents = range(self.first, self.first + count * self.step, self.step)
                fit = Fit(self.name, self.function, low, high, exponents, self.fixed, self.scale, self.about)
                found[f"{self.name}_{kind.upper()}"] = (kind, fit)
        return found


def power_of_two(x: Number) -> Number:
    return mp.mpf(2) ** x


def power_of_two_less_one(x: Number) -> Number:
    return mp.expm1(x * mp.log(2))


def erf_rest(x: Number) -> Number:
    return mp.erf(x) - x


def scaled_complement(centre: str) -> Callable[[Number], Number]:
    """exp(a**2) erfc(a) (a + centre) as a function of q = (a - centre) / (a + centre)."""
    c = mp.mpf(centre)

    def function(q):
        a = c * (1 + q) / (1 - q)
        return mp.exp(a * a) * mp.erfc(a) * (a + c)

    return function


def inverse_error_ratio(w: Number) -> Number:
    """erf_inv(x) / x for w = -log(1 - x**2)."""
    if w < mp.mpf(10) ** -30:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    rest = mp.exp(-w) / (1 + x)  # 1 - x
    y = mp.sqrt(w - mp.log(mp.pi * w) / 2) if w > 2 else x * mp.sqrt(mp.pi) / 2
    while True:  # Halley's steps on erfc
        step = (mp.erfc(y) - rest) / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        step /= 1 + y * step
        y -= step
        if abs(step) < mp.mpf(10) ** -(mp.dps // 2 + 5) * y:
            return y / x


def inverse_error_middle(centre: str) -> Callable[[Number], Number]:
    return lambda t: inverse_error_ratio(t + mp.mpf(centre))


def inverse_error_tail(centre: str) -> Callable[[Number], Number]:
    return lambda t: inverse_error_ratio((t + mp.mpf(centre)) ** 2)


def bessel_small(order: int) -> Callable[[Number], Number]:
    """I0(x), or I1(x) / x, by (x/2)**2."""

    def function(z):
        x = 2 * mp.sqrt(z)
        return mp.besseli(order, x) / (x if order and x else 1) if x or not order else mp.mpf(1) / 2

    return function


def bessel_large(order: int) -> Callable[[Number], Number]:
    """sqrt(x) exp(-x) I(order, x) by 16 / x - 1; the first terms of the asymptotic series where x is huge."""

    def function(t):
        u = (1 + t) / 16
        if u > mp.mpf(10) ** -6:
            return mp.besseli(order, 1 / u) * mp.exp(-1 / u) / mp.sqrt(u)
        term, total = mp.mpf(1), mp.mpf(1)
        for k in range(1, 9):
            term *= -(4 * order**2 - (2 * k - 1) ** 2) * u / (8 * k)
            total += term
        return total / mp.sqrt(2 * mp.pi)

    return function


def stirling_rest(w: Number) -> Number:
    """x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) for w = 1 / x**2."""
    x = 1 / mp.sqrt(w)
    return x * (mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def digamma_rest(w: Number) -> Number:
    """x**2 (log(x) - 1 / (2 x) - digamma(x)) for w = 1 / x**2."""
    x = 1 / mp.sqrt(w)
    return x * x * (mp.log(x) - 1 / (2 * x) - mp.digamma(x))


def elementary() -> list[Family]:
    """The polynomials of the elementary functions, in the order of the file."""
    third = "log(2)/2+0.0001"
    quarter = "pi/4+0.004"  # the reduction of an angle picks the multiple of pi/2 with an error that grows with it
    narrow = ("sqrt(0.5)-1", "sqrt(2)-1")
    ratio = "(sqrt(2)-1)/(sqrt(2)+1)"

    return [
        Family(
            "EXP",
            mp.expm1,
            "exp(x) - 1 - x, relative to exp(x)",
            ("-log(2)/2", "log(2)", 6),
            ("-log(2)/2", "log(2)", 11),
            2,
            fixed={1: 1},
            scale=mp.exp,
        ),
        Family(
            "EXP2",
            power_of_two_less_one,
            "2**x - 1, relative to 2**x",
            ("-0.5", "1", 7),
            ("-0.5", "1", 12),
            scale=power_of_two,
        ),
        Family(
            "EXP2_NEAREST",
            power_of_two_less_one,
            "2**x - 1, relative to 2**x",
            ("-0.5", "0.5", 6),
            ("-0.5", "0.5", 11),
            scale=power_of_two,
        ),
        Family(
            "EXPM1",
            mp.expm1,
            "exp(x) - 1 - x",
            ("-log(2)/2", "log(2)/2", 6),
            ("-log(2)/2", "log(2)/2", 11),
            2,
            fixed={1: 1},
        ),
        Family("TANH", mp.tanh, "tanh(x) - x", ("0", "0.55", 5), ("0", "0.55", 10), 3, 2, {1: 1}),
        Family("SINH", mp.sinh, "sinh(x) - x", ("0", third, 3), ("0", third, 5), 3, 2, {1: 1}),
        Family("COSH", mp.cosh, "cosh(x) - 1 - x**2/2", ("0", third, 2), ("0", third, 5), 4, 2, {0: 1, 2: 0.5}),
        Family("LOG", mp.log1p, "log(1+x) - x + x**2/2", (*narrow, 8), None, 3, fixed={1: 1, 2: -0.5}),
        Family("ATANH", lambda s: 2 * mp.atanh(s), "2*atanh(x) - 2*x", None, ("0", ratio, 7), 3, 2, {1: 2}),
        Family(
            "ATANH_POW",
            lambda s: 2 * mp.atanh(s),
            "2*atanh(x) - 2*x - 2/3*x**3, relative to 2*atanh(x)",
            None,
            ("0", ratio, 7),
            5,
            2,
            {1: 2, 3: "mpf(2)/3"},
        ),
        Family("LOG2_HALFWAY", lambda x: mp.log1p(x) / mp.log(2), "log2(1+x), for f32 powers", None, (*narrow, 14)),
        Family("SIN", mp.sin, "sin(x) - x", ("0", quarter, 3), ("0", quarter, 6), 3, 2, {1: 1}),
        Family("COS", mp.cos, "cos(x) - 1 + x**2/2", ("0", quarter, 3), ("0", quarter, 6), 4, 2, {0: 1, 2: -0.5}),
        Family("TAN", mp.tan, "tan(x) - x", ("0", quarter, 7), ("0", quarter, 14), 3, 2, {1: 1}),
        Family("ATAN", mp.atan, "atan(x) - x", ("0", "1", 9), ("0", "1", 20), 3, 2, {1: 1}),
        Family("ASIN", mp.asin, "asin(x) - x", ("0", "0.5", 5), ("0", "0.5", 12), 3, 2, {1: 1}),
    ]


def special() -> list[Family]:
    """The polynomials of the special functions, in the order of the file."""

    def fraction(a: str, centre: str) -> str:
        return f"({a}-{centre})/({a}+{centre})"

    def complement(centre: str, high: str, count: int) -> tuple[str, str, int]:
        return (fraction("0.58", centre), fraction(high, centre), count)

    found = [
        Family(
            "ERF",
            erf_rest,
            "erf(x) - x, relative to erf(x)",
            ("0", "0.9", 7),
            ("0", "0.9", 12),
            1,
            2,
            scale=mp.erf,
        ),
        Family(
            "LOG2_ERFC",
            lambda x: mp.log(mp.erfc(x), 2),
            "log2(erfc(x)), error times erfc(x)",
            ("0.9", "3.95", 7),
            ("0.9", "5.95", 18),
            0,
            scale=lambda x: 1 / mp.erfc(x),
        ),
    ]
    for centre, domain32, domain64 in (
        ("1.5", complement("1.5", "9.4", 10), None),
        ("2", None, complement("2", "26.7", 22)),
    ):
        about = f"exp(a**2)*erfc(a)*(a+{centre}) by x = (a-{centre})/(a+{centre})"
        found.append(Family("ERFCX", scaled_complement(centre), about, domain32, domain64, 0))
    for name, function, variable, centre, domain32, domain64 in (
        ("MIDDLE", inverse_error_middle, "-log(1-y**2)", "2.5", ("0-2.5", "5-2.5", 10), None),
        ("MIDDLE", inverse_error_middle, "-log(1-y**2)", "3.125", None, ("0-3.125", "6.25-3.125", 24)),
        ("TAIL", inverse_error_tail, "sqrt(-log(1-y**2))", "3", ("sqrt(5)-3", "4.05-3", 10), None),
        ("TAIL", inverse_error_tail, "sqrt(-log(1-y**2))", "3.25", None, ("2.5-3.25", "4-3.25", 19)),
        ("FAR_TAIL", inverse_error_tail, "sqrt(-log(1-y**2))", "5", None, ("4-5", "6.01-5", 18)),
    ):
        about = f"erf_inv(y)/y by x = {variable} - {centre}"
        found.append(Family(f"ERF_INV_{name}", function(centre), about, domain32, domain64, 0))
    middle = (f"1-{DIGAMMA_ZERO}", f"2-{DIGAMMA_ZERO}")
    found += [
        Family(
            "LGAMMA_MIDDLE",
            lambda y: mp.loggamma(2 + y),
            "lgamma(2+x), relative to itself",
            ("-0.75", "0.5", 10),
            ("-0.75", "0.5", 21),
        ),
        Family(
            "LGAMMA_LARGE",
            stirling_rest,
            "y*(lgamma(y) - (y-1/2)*log(y) + y - log(2*pi)/2) by x = 1/y**2, relative to y*lgamma(y)",
            ("exp(-30)", "1/2.5/2.5", 4),
            ("exp(-70)", "1/4.5/4.5", 9),
            0,
            scale=lambda w: mp.loggamma(1 / mp.sqrt(w)) / mp.sqrt(w),
        ),
        Family(
            "DIGAMMA_MIDDLE",
            lambda t: mp.digamma(mp.mpf(DIGAMMA_ZERO) + t),
            "digamma(z+x) for its zero z, relative to itself",
            (*middle, 11),
            (*middle, 22),
        ),
        Family(
            "DIGAMMA_LARGE",
            digamma_rest,
            "y**2*(log(y) - 1/(2*y) - digamma(y)) by x = 1/y**2, relative to y**2*digamma(y)",
            ("exp(-30)", "1/2/2", 5),
            ("exp(-70)", "1/3/3", 12),
            0,
            scale=lambda w: mp.digamma(1 / mp.sqrt(w)) / w,
        ),
        *(
            Family(
                f"BESSEL_I{order}_SMALL",
                bessel_small(order),
                f"{'I1(y)/y' if order else 'I0(y)'} by x = (y/2)**2",
                ("0", "16", 10),
                ("0", "16", 16),
                0,
            )
            for order in (0, 1)
        ),
        *(
            Family(
                f"BESSEL_I{order}_LARGE",
                bessel_large(order),
                f"sqrt(y)*exp(-y)*I{order}(y) by x = 16/y - 1",
                ("-1", "1", 6),
                ("-1", "1", 24),
                0,
            )
            for order in (0, 1)
        ),
        Family(
            "SINPI", lambda x: mp.sinpi(x) / mp.pi, "sin(pi*x)/pi - x", ("0", "0.5", 5), ("0", "0.5", 8), 3, 2, {1: 1}
        ),
    ]
    return found


def constants() -> dict[str, tuple[str, list[float]]]:
    """Name of the list, then its comment and its numbers."""
    found = {}
    for kind in ("f32", "f64"):
        for name, value, parts, about in (
            ("LN2", mp.log(2), 2, "log(2)"),
            ("LOG2E", 1 / mp.log(2), 2, "1/log(2)"),
            ("PI", mp.pi, 2, "pi"),
            ("HALF_PI", mp.pi / 2, 3, "pi/2"),
            ("TWO_OVER_PI", 2 / mp.pi, 1, "2/pi"),
            ("TWO_THIRDS", mp.mpf(2) / 3, 2, "2/3"),
            ("DIGAMMA_ZERO", mp.mpf(DIGAMMA_ZERO), 2, "the zero of digamma"),
            ("LGAMMA_SHIFT", (mp.log(2 * mp.pi) - 1) / 2, 1, "(log(2*pi) - 1)/2"),
        ):
            found[f"{name}_{kind.upper()}"] = (f"{about}, the sum of {parts}", split(value, kind, parts))
        scale = 2 ** (12 if kind == "f32" else 40)
        short = float(mp.nint(mp.log(2) * scale)) / scale
        comment = "log(2), the sum of 2; the first is short, so its product with an exponent is exact"
        found[f"LN2_SHORT_{kind.upper()}"] = (comment, [short, rounded(mp.log(2) - mp.mpf(short), kind)])
    series = [rounded(mp.bernoulli(2 * j) / mp.factorial(2 * j), "f64") for j in range(1, 13)]
    found["EULER_MACLAURIN_F64"] = ("bernoulli(2*j)/(2*j)!, j = 1, ..., 12", series)
    with mp.workdps(450):
        chunks, rest = [], 2 / mp.pi
        for _ in range(24):
            whole = mp.floor(rest * 2**53)
            rest = rest * 2**53 - whole
            chunks.append(float(whole) / 2**53)
    found["TWO_OVER_PI_CHUNKS_F64"] = ("2/pi, 53 bits each; number k is scaled by 2**(53*k)", chunks)
    return found


def split(value: Number, kind: str, parts: int) -> list[float]:
    """Numbers of the type whose sum is the value."""
    found: list[float] = []
    for _ in range(parts):
        found.append(rounded(value - sum((mp.mpf(v) for v in found), mp.mpf(0)), kind))
    return found


def list_text(name: str, comment: str, values: list[float]) -> str:
    digits = 9 if name.endswith("F32") else 17
    numbers = "".join(f"    {value:.{digits}g},\n" for value in values)
    return f"\n# {comment}\ncomptime {name}: List[Float64] = [\n{numbers}]\n"


def fit_text(name: str, kind: str, fit: Fit) -> str:
    coefficients, error = fit.solve(kind)
    step = fit.exponents[1] - fit.exponents[0]
    powers = f"x**{fit.exponents[0]}, ..., x**{fit.exponents[-1]}" + (f" by {step}" if step > 1 else "")
    interval = f"[{_short(fit.low)}, {_short(fit.high)}]"
    return list_text(name, f"{fit.about} on {interval}, {powers}: error 2**{math.log2(error):.1f}", coefficients)


def _short(bound: str) -> str:
    return bound.replace(DIGAMMA_ZERO, "z")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if the file would change")
    parser.add_argument("--only", metavar="PREFIX", default="", help="print the lists whose names start so")
    options = parser.parse_args()
    changed = False
    for file, some in (("coefficients.mojo", elementary()), ("special_coefficients.mojo", special())):
        lists = []
        if file == "coefficients.mojo":
            lists = [list_text(n, *rest) for n, rest in constants().items() if n.startswith(options.only)]
        for family in some:
            lists += [fit_text(n, *rest) for n, rest in family.lists().items() if n.startswith(options.only)]
        content = HEADER + "".join(lists)
        if options.only:
            print("".join(lists))
        elif options.check:
            changed |= (FOLDER / file).read_text() != content
        else:
            (FOLDER / file).write_text(content)
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())

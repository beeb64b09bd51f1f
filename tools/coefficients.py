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

HEADER = '''"""Polynomials and constants. Written by tools/coefficients.py; do not edit.

Each function evaluates the polynomial whose powers of x its comment names, divided by the lowest of them. The comments
state the function, the interval, and the largest relative error there of the polynomial with its rounded coefficients,
by exact arithmetic.
"""

from .polynomial import horner
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

    apart: bool = False
    """The lowest coefficient is a constant of its own."""
    other: Family | None = None
    """What f64 has instead, where function or scale differ."""

    def fits(self) -> list[tuple[str, Fit]]:
        """The type and the fit, for each type that has one."""
        found = []
        for kind, domain in (("f32", self.f32), ("f64", self.f64)):
            if domain:
                low, high, count = domain
                exponents = range(self.first, self.first + count * self.step, self.step)
                fit = Fit(self.name, self.function, low, high, exponents, self.fixed, self.scale, self.about)
                found.append((kind, fit))
        return found + (self.other.fits() if self.other else [])


def power_of_two(x: Number) -> Number:
    return mp.mpf(2) ** x


def power_of_two_less_one(x: Number) -> Number:
    return mp.expm1(x * mp.log(2))


def erf_rest(x: Number) -> Number:
    return mp.erf(x) - x


def scaled_complement(root: str, slope: bool = False) -> Callable[[Number], Number]:
    """exp(a**2) erfc(a) (a + 2) as a function of q = (a - root) / (a + 2), or minus its elasticity in a + 2."""

    def function(q):
        a = (mp.mpf(root) + 2 * q) / (1 - q)
        scaled = mp.exp(a * a) * mp.erfc(a)
        return (a + 2) * ((2 / mp.sqrt(mp.pi) / scaled - 2 * a) if slope else scaled)

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

    def erfcx(
        root: str, high: str, counts: tuple[int, int], other: Family | None = None, slope: bool = False
    ) -> Family:
        about = ("its elasticity, " if slope else "exp(a**2)*erfc(a)*(a+2) ") + f"by x = (a-{root})/(a+2)"
        f32, f64 = ((f"-{root}/2", f"({high}-{root})/({high}+2)", count) if count else None for count in counts)
        name = "ERFCX_SLOPE" if slope else "ERFCX"
        return Family(name, scaled_complement(root, slope), about, f32, f64, 0, apart=not slope, other=other)

    def erf_inv(name: str, centre: str, domain32, domain64, other: Family | None = None) -> Family:
        tail = name != "MIDDLE"
        function = (inverse_error_tail if tail else inverse_error_middle)(centre)
        about = f"erf_inv(y)/y by x = {'sqrt(-log(1-y**2))' if tail else '-log(1-y**2)'} - {centre}"
        return Family(f"ERF_INV_{name}", function, about, domain32, domain64, 0, other=other)

    found += [
        erfcx("2.1875", "9.4", (11, 0), erfcx("3", "26.7", (0, 25))),
        erfcx("2.1875", "9.4", (2, 0), erfcx("3", "26.7", (0, 2), slope=True), slope=True),
        erf_inv(
            "MIDDLE",
            "2.5",
            ("0-2.5", "5-2.5", 10),
            None,
            erf_inv("MIDDLE", "3.125", None, ("0-3.125", "6.25-3.125", 24)),
        ),
        erf_inv(
            "TAIL", "3", ("sqrt(5)-3", "4.05-3", 10), None, erf_inv("TAIL", "3.25", None, ("2.5-3.25", "4-3.25", 19))
        ),
        erf_inv("FAR_TAIL", "5", None, ("4-5", "6.01-5", 18)),
    ]
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


def constants() -> str:
    """The text of all constants."""
    text = ""
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
        labels = ("",) if parts == 1 else ("_HIGH", "_LOW") if parts == 2 else ("_HIGH", "_MIDDLE", "_LOW")
        text += f"\n# {about}" + (f", the sum of {parts}" if parts > 1 else "") + "\n"
        for label, f32, f64 in zip(labels, split(value, "f32", parts), split(value, "f64", parts), strict=True):
            text += constant_text(name + label, f32, f64)
    short = {kind: float(mp.nint(mp.log(2) * 2**bits)) / 2**bits for kind, bits in (("f32", 12), ("f64", 40))}
    rest = {kind: rounded(mp.log(2) - mp.mpf(value), kind) for kind, value in short.items()}
    text += "\n# log(2), the sum of 2; the first is short, so its product with an exponent is exact\n"
    text += constant_text("LN2_SHORT_HIGH", *short.values()) + constant_text("LN2_SHORT_LOW", *rest.values())
    series = [rounded(mp.bernoulli(2 * j) / mp.factorial(2 * j), "f64") for j in range(1, 13)]
    text += tuple_text("EULER_MACLAURIN", "bernoulli(2*j)/(2*j)!, j = 1, ..., 12", series)
    with mp.workdps(450):
        chunks, remainder = [], 2 / mp.pi
        for _ in range(24):
            whole = mp.floor(remainder * 2**53)
            remainder = remainder * 2**53 - whole
            chunks.append(float(whole) / 2**53)
    return text + tuple_text("TWO_OVER_PI_CHUNKS", "2/pi, 53 bits each; number k is scaled by 2**(53*k)", chunks)


def constant_text(name: str, f32: float, f64: float) -> str:
    start = f"comptime {name}[dt: DType] = Scalar[dt]({f32:.9g}) if dt == DType.float32 else Scalar[dt]("
    line = f"{start}{f64:.17g})\n"
    return line if len(line) <= 121 else f"{start}\n    {f64:.17g}\n)\n"  # as `mojo format` breaks it


def tuple_text(name: str, comment: str, values: list[float]) -> str:
    return f"\n# {comment}\ncomptime {name} = (\n" + "".join(f"    {value:.17g},\n" for value in values) + ")\n"


def split(value: Number, kind: str, parts: int) -> list[float]:
    """Numbers of the type whose sum is the value."""
    found: list[float] = []
    for _ in range(parts):
        found.append(rounded(value - sum((mp.mpf(v) for v in found), mp.mpf(0)), kind))
    return found


def family_text(family: Family) -> str:
    """A constant for the lowest coefficient if that is wanted apart, and the function for the others."""
    comments, calls, firsts = [], [], []
    for kind, fit in family.fits():
        coefficients, error = fit.solve(kind)
        step = fit.exponents[1] - fit.exponents[0]
        powers = f"x**{fit.exponents[0]}, ..., x**{fit.exponents[-1]}" + (f" by {step}" if step > 1 else "")
        interval = f"[{_short(fit.low)}, {_short(fit.high)}]"
        comments.append(f"# {kind}: {fit.about}\n#      on {interval}, {powers}: error 2**{math.log2(error):.1f}\n")
        if family.apart:
            firsts.append(coefficients.pop(0))
        digits = 9 if kind == "f32" else 17
        numbers = "".join(f"            {value:.{digits}g},\n" for value in coefficients)
        calls.append(f"        return horner[\n{numbers}        ](x)\n")
    name = family.name.lower() + "_poly"
    head = f"@always_inline\ndef {name}[dt: DType, w: SIMDLength](x: SIMD[dt, w]) -> SIMD[dt, w]:\n"
    if len(calls) == 1:
        body = calls[0].replace("\n    ", "\n").removeprefix("    ")
    else:
        body = f"    comptime if dt == DType.float32:\n{calls[0]}    else:\n{calls[1]}"
    apart = (
        "\n\n# the lowest coefficient of the next\n" + constant_text(f"{family.name}_FIRST", *firsts) if firsts else ""
    )
    return f"{apart}\n\n{''.join(comments)}{head}{body}"


def _short(bound: str) -> str:
    return bound.replace(DIGAMMA_ZERO, "z")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail if a file would change")
    parser.add_argument("--only", metavar="PREFIX", default="", help="print the polynomials whose names start so")
    options = parser.parse_args()
    changed = False
    for file, some in (("coefficients.mojo", elementary()), ("special_coefficients.mojo", special())):
        texts = [family_text(family) for family in some if family.name.startswith(options.only)]
        if options.only:
            print("".join(texts))
            continue
        content = HEADER + (constants() if file == "coefficients.mojo" else "") + "".join(texts)
        if options.check:
            changed |= (FOLDER / file).read_text() != content
        else:
            (FOLDER / file).write_text(content)
    return int(changed)


if __name__ == "__main__":
    sys.exit(main())

"""Every scalar operation on every dtype at the edges: NaN, infinities, signed zero, extremes, overflow, zero divisors.

The reference is `jax.jit`. Arrays are longer than a vector and end in a tail; `test_lengths.py` walks the tails.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from support import DTYPES, FLOATS, INTEGERS, SIGNED, Batch, Case, edge_values, pairs

CASES: list[Case] = []


def _unary(name, f, dtypes, ulp=0.0, values=edge_values):
    for dtype in dtypes:
        CASES.append(Case(f"{name}-{dtype}", f, (np.tile(values(dtype), 5),), ulp, x64=True))


def _binary(name, f, dtypes, ulp=0.0):
    for dtype in dtypes:
        CASES.append(Case(f"{name}-{dtype}", f, pairs(dtype), ulp, x64=True))


NUMBERS = (*INTEGERS, *FLOATS)
_binary("add", lax.add, NUMBERS)
_binary("jnp.add", jnp.add, ("bool",))
_binary("sub", lax.sub, NUMBERS)
_binary("mul", lax.mul, NUMBERS)
_binary("jnp.multiply", jnp.multiply, ("bool",))
_binary("div", lax.div, NUMBERS)
_binary("rem", lax.rem, NUMBERS)
_binary("max", lax.max, DTYPES)
_binary("min", lax.min, DTYPES)
_binary("nextafter", lax.nextafter, FLOATS)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _binary(_name, getattr(lax, _name), DTYPES)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _binary(_name, getattr(lax, _name), ("bool", *INTEGERS))
for _name in ("shift_left", "shift_right_logical", "shift_right_arithmetic"):
    _binary(_name, getattr(lax, _name), INTEGERS)
_unary("neg", lax.neg, NUMBERS)
_unary("abs", jnp.abs, (*SIGNED, *FLOATS))
_unary("sign", lax.sign, NUMBERS)
_unary("square", lax.square, NUMBERS)
_unary("not", lax.bitwise_not, ("bool", *INTEGERS))
_unary("population_count", lax.population_count, INTEGERS)
_unary("clz", lax.clz, INTEGERS)
_unary("floor", lax.floor, FLOATS)
_unary("ceil", lax.ceil, FLOATS)
_unary("round_half_away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), FLOATS)
_unary("round_half_even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS)
_unary("is_finite", lax.is_finite, FLOATS)
_unary("sqrt", lax.sqrt, FLOATS, ulp=1)
for _y in (-3, -1, 0, 1, 2, 3, 7):
    _unary(f"integer_pow[{_y}]", lambda x, y=_y: lax.integer_pow(x, y), FLOATS, ulp=3)
for _y in (0, 1, 2, 3, 7):
    _unary(f"integer_pow[{_y}]", lambda x, y=_y: lax.integer_pow(x, y), INTEGERS)
for _bits in ((5, 10), (8, 7), (4, 3), (8, 23), (11, 52)):
    _unary(f"reduce_precision{_bits}", lambda x, b=_bits: lax.reduce_precision(x, *b), ("float32", "float64"))
for _before in DTYPES:
    _unary(
        f"convert-{_before}",
        lambda x: tuple(lax.convert_element_type(x, jnp.dtype(d)) for d in DTYPES),
        (_before,),
    )


def _bitcast(*dtypes):
    return lambda x: tuple(lax.bitcast_convert_type(x, jnp.dtype(d)) for d in dtypes)


_unary("bitcast8", _bitcast("int8", "uint8"), ("int8", "uint8"))
_unary("bitcast16", _bitcast("int16", "uint16", "float16", "bfloat16"), ("int16", "uint16", "float16", "bfloat16"))
_unary("bitcast32", _bitcast("int32", "uint32", "float32"), ("int32", "uint32", "float32"))
_unary("bitcast64", _bitcast("int64", "uint64", "float64"), ("int64", "uint64", "float64"))

for _dtype in DTYPES:
    _a, _b = pairs(_dtype)
    _mask = np.arange(len(_a)) % 3 == 0
    _which = (np.arange(len(_a)) % 5 - 1).astype(np.int32)
    CASES += [
        Case(f"clamp-{_dtype}", lambda lo, x, hi: lax.clamp(lo, x, hi), (_a, _b, np.roll(_a, 7)), x64=True),
        Case(
            f"clamp-scalars-{_dtype}", lambda lo, x, hi: lax.clamp(lo, x, hi), (_a[3 % len(_a)], _b, _a[-1]), x64=True
        ),
        Case(f"select-{_dtype}", lambda m, a, b: jnp.where(m, a, b), (_mask, _a, _b), x64=True),
        Case(f"select-scalar-{_dtype}", lambda m, a, b: lax.select_n(m, a, b), (np.bool_(True), _a, _b), x64=True),
        Case(
            f"select_n-{_dtype}",
            lambda w, a, b: lax.select_n(w, a, b, a, b),
            (np.clip(_which, 0, 3), _a, _b),
            x64=True,
        ),
    ]

BATCH = Batch(CASES)


@BATCH.parametrize()
def test_operation(name) -> None:
    BATCH.check(name)


def test_signed_types_are_all_there() -> None:
    """The lists above cover what the table promises."""
    from juju.dialect.table import TABLE

    tested = {name.split("-")[0].split("[")[0].split("(")[0] for name in BATCH.cases}
    aliases = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "bitcast": "bitcast8"}
    scalar = [row.name for row in TABLE if row.cost < 12 and row.accuracy not in ("2 ulp", "4 ulp")]
    elsewhere = {"add_any", "one_minus_square", "mulhi", "lt_to", "le_to", "rem", "sqrt", "rsqrt"}
    missing = {n for n in scalar if aliases.get(n, n) not in tested} - elsewhere
    assert not missing
    assert SIGNED

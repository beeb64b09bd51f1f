"""JAX's own primitive harnesses, as cases of ours. Private to JAX, so used in tests only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ELEMENTWISE = (
    "abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil "
    "clamp convert_element_type cos cosh digamma div eq erf erf_inv erfc exp expm1 floor ge gt igamma igammac "
    "integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter or population_count pow "
    "reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic "
    "shift_right_logical sign sin sinh sqrt stop_gradient sub tan tanh xor"
).split()
"""Groups of the elementwise primitives."""

MOVING = (
    "broadcast_in_dim concatenate dynamic_slice dynamic_update_slice gather iota iota_2x32_shape pad reshape rev slice "
    "squeeze transpose"
).split()
"""Groups of the primitives that move elements."""

REDUCING = (
    "argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce reduce_and reduce_max reduce_min reduce_or "
    "reduce_prod reduce_sum reduce_window_add reduce_window_max reduce_window_min reduce_window_mul "
    "select_and_gather_add select_and_scatter_add"
).split()
"""Groups of reductions, running totals and windows."""

ORDERING = "approx_top_k sort top_k".split()
"""Groups of the primitives that order."""

WRITING = "scatter scatter_add scatter_max scatter_min scatter_mul".split()
"""Groups of the primitives that write by index."""

GAPS_FILE = Path(__file__).with_name("known_gaps.txt")


def known_gaps() -> dict[str, str]:
    """Harnesses juju does not pass yet, with the reason; the file may only shrink."""
    lines = [line for line in GAPS_FILE.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def harnesses(groups: Sequence[str]) -> Iterator[Any]:
    """The harnesses of some groups that this JAX supports on CPU and that hold no complex numbers."""
    from jax._src.internal_test_util import test_harnesses

    seen = set()
    for harness in test_harnesses.all_harnesses:
        if harness.group_name not in groups or harness.fullname in seen:
            continue
        if not harness.filter("cpu"):
            continue
        seen.add(harness.fullname)
        yield harness


def real(groups: Sequence[str]) -> dict[str, Any]:
    """The harnesses of some groups without complex numbers, by name."""
    return {h.fullname: h for h in harnesses(groups) if not is_complex(h)}


def sample(found: dict[str, Any], share: int) -> dict[str, Any]:
    """Of each group the first and every `share`-th harness; all of them if `JUJU_CONFORMANCE` is `all`.

    Harnesses that differ in `enable_xla` only are the same program for us.
    """
    if os.environ.get("JUJU_CONFORMANCE") == "all":
        return found
    groups: dict[str, list[str]] = {}
    for name, harness in found.items():
        if harness.params.get("enable_xla", True):
            groups.setdefault(harness.group_name, []).append(name)
    return {name: found[name] for names in groups.values() for name in names[::share]}


def is_wide(harness: Any) -> bool:
    """Whether a harness needs 64-bit types."""
    values = [harness.dtype, *harness.params.values()]
    return any(isinstance(v, (type, np.dtype)) and np.dtype(v).itemsize == 8 for v in values)


def is_complex(harness: Any) -> bool:
    """Whether a harness takes, gives or goes through complex numbers."""
    values = [harness.dtype, *harness.params.values()]
    names = [str(np.dtype(v)) if isinstance(v, (type, np.dtype)) and v is not None else "" for v in values]
    return any(name.startswith("complex") for name in names)


def arguments(harness: Any) -> list[Any]:
    """The harness's own dynamic arguments, the same at every run."""
    return list(harness.dyn_args_maker(np.random.RandomState(42)))

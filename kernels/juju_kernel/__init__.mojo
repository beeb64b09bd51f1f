"""What every generated kernel is written in: argument words, loads and stores with tails, and the sweep over points.

A kernel is one C function `(args, lo, hi) -> status`. `args` holds 64-bit words: the addresses of all buffers, then
sizes. A kernel computes the points `lo ..< hi` of its launch and may run on several threads with disjoint ranges.
"""

from .access import (
    divide,
    gather,
    gather_where,
    indices,
    load_every,
    load_one,
    load_reversed,
    load_strided,
    load_where,
    modulo,
    reversed_where,
    store_pairs,
    store_strided,
)
from .combine import And, LogAddExp, Maximum, Minimum, Or, Product, Sum, Xor
from .extreme import Extreme, Extremes
from .half import fence, narrow, round_to, widen
from .memory import LINE, aligned, live, load, splat, store
from .running import Running, Runnings
from .scratch import release, scratch
from .sweep import LANES, drain, sweep, sweep_back, sweep_down, sweep_stream
from .tile import TILE, tile, tiles, turn
from .total import BLOCK, STEPS, Total, Totals, merged
from .words import Args, GRAIN, array, padded, size

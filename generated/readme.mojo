# readme, from examples/gallery.py:30. Written by juju; edit a copy.
# 2 arrays in, 1 array out, 1 nest.

from juju_kernel import Args, array, load, store
from juju_math import sin


@export
def readme(args: Args, lo: Int, hi: Int) abi("C") -> Int:
    var in_x = array[DType.float32](args, 0)
    var in_y = array[DType.float32](args, 1)
    var out_sin = array[DType.float32](args, 2)
    var x = load[1](in_x, 0, 1)
    var y = load[1](in_y, 0, 1)
    # examples/gallery.py:30
    var v = x + y
    var v_2 = v * v
    var v_3 = sin(v_2)
    if lo == 0:
        store(out_sin, 0, v_3, 1)
    return 0

"""The max engine on small hand-written kernels: every byte of every result, whatever the operands and the device."""

from __future__ import annotations

import gc
import json
import threading
import time
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_support import LONG, aval, axpy, compile_kernels, load, make_plan, poisoned, run_python, unary

from juju import _machine as machine
from juju.engines import max as engine
from juju.engines import trampoline as trampolines
from juju.engines.max import Executable, check_devices
from juju.engines.pool import default_pool
from juju.engines.trampoline import trampoline
from juju.errors import DeletedArrayError, DeviceError

RNG = np.random.default_rng(0)
LENGTHS = [1, 2, 63, 64, 65, 1000, LONG, LONG + 1, LONG + 63, 3 * LONG - 1]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """All kernels of this file, in one run of the compiler; and no trimming in the middle of a test."""
    default_pool().idle_seconds = 3600
    compile_kernels()
    trampoline().open_graph(wait=True)


# Values ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nanoseconds", [1e3, 2e6, 6e7], ids=["serial", "crew", "graph"])
@pytest.mark.parametrize("n", LENGTHS)
def test_every_element_is_computed(n: int, nanoseconds: float) -> None:
    f = axpy(n, nanoseconds / n)
    assert f._dispatch == ("serial" if nanoseconds < 1e5 or machine.cores() == 1 else f._dispatch)
    x, y = (jnp.asarray(RNG.standard_normal(n, np.float32)) for _ in range(2))
    (got,) = poisoned(lambda: f([x, y]))
    np.testing.assert_array_equal(got, np.asarray(x) * 2 + np.asarray(y))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "bfloat16", "float16", "int32", "float64", "uint64"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 9), (300, 1001)])
def test_every_byte_of_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    with jax.enable_x64(True):
        width, size = np.dtype(dtype).itemsize, int(np.prod(shape))
        plan = make_plan(
            [("bytes", (0, 1), (width,), size, 2)], [("operand", shape, dtype), ("result", shape, dtype)], [1]
        )
        f = load(plan, [aval(shape, dtype)])
        x = jnp.asarray(RNG.integers(0, 2, shape).astype(dtype))
        (got,) = poisoned(lambda: f([x]))
        assert got.dtype == x.dtype
        assert got.shape == shape
        assert got.tobytes() == np.asarray(x).tobytes()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 2)])
def test_empty_results_need_no_launch(shape: tuple[int, ...]) -> None:
    f = load(make_plan([], [("operand", shape, "int32"), ("result", shape, "int32")], [1]), [aval(shape, "int32")])
    (got,) = f([jnp.zeros(shape, jnp.int32)])
    assert got.shape == shape
    assert got.dtype == jnp.int32


def test_rank_0_in_and_out() -> None:
    plan = make_plan([("uniform", (0, 1), (), 1, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    f = load(plan, [aval(())])
    (got,) = poisoned(lambda: f([jnp.float32(7)]))
    assert got.shape == ()
    assert got == 21


def test_a_uniform_result_of_a_split_launch_is_written_once() -> None:
    plan = make_plan([("uniform", (0, 1), (), LONG, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    (got,) = poisoned(lambda: load(plan, [aval(())])([jnp.float32(7)]))
    assert got == 21


def test_sizes_reach_the_kernel() -> None:
    f = unary("shift", 100, sizes=(-(1 << 20),))
    np.testing.assert_array_equal(np.asarray(f([jnp.zeros(100)])[0]), np.full(100, -(1 << 20), np.float32))


@pytest.mark.parametrize("n", [100, LONG])
def test_launches_run_in_order(n: int) -> None:
    steps = [("double", (0, 2), (), n, 1), ("shift", (2, 3), (5,), n, 1), ("axpy", (3, 2, 1), (), n, 1)]
    buffers = [("operand", (n,), "float32"), ("result", (n,), "float32"), *[("scratch", (n,), "float32")] * 2]
    f = load(make_plan(steps, buffers, [1]), [aval((n,))])
    x = jnp.arange(n, dtype=jnp.float32)
    for _ in range(5):
        (got,) = poisoned(lambda: f([x]))
        np.testing.assert_array_equal(got, (np.asarray(x) * 2 + 5) * 2 + np.asarray(x) * 2)


def test_scratch_goes_back_to_the_pool() -> None:
    n = 1000
    steps = [("double", (0, 2), (), n, 1), ("double", (2, 1), (), n, 1)]
    buffers = [("operand", (n,), "float32"), ("result", (n,), "float32"), ("scratch", (n,), "float32")]
    f = load(make_plan(steps, buffers, [1]), [aval((n,))])
    gc.collect()
    before = default_pool().stats().lent
    (got,) = f([jnp.ones(n)])
    assert default_pool().stats().lent == before + 4096
    assert (np.asarray(got) == 4).all()


def test_a_hundred_operands_and_results() -> None:
    n, count = 70, 100
    steps = [("axpy", (i, (i + 1) % count, count + i), (), n, 0.2) for i in range(count)]
    buffers = [*[("operand", (n,), "float32")] * count, *[("result", (n,), "float32")] * count]
    f = load(make_plan(steps, buffers, range(count, 2 * count)), [aval((n,))] * count)
    xs = [jnp.full(n, float(i)) for i in range(count)]
    got = poisoned(lambda: f(xs))
    for i in range(count):
        assert (got[i] == 2 * i + (i + 1) % count).all()


def test_no_operands_and_no_results() -> None:
    assert load(make_plan([], [], []), [])([]) == []


def test_result_shapes_are_those_of_the_avals() -> None:
    plan = make_plan(
        [("double", (0, 1), (), 12, 1)], [("operand", (12,), "float32"), ("result", (12,), "float32")], [1]
    )
    (got,) = load(plan, [aval((3, 4))])([jnp.arange(12.0).reshape(3, 4)])
    np.testing.assert_array_equal(np.asarray(got), np.arange(12.0).reshape(3, 4) * 2)


# Results that are something else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("n", [3, 64, 1001, LONG + 5])
def test_operands_constants_and_repeats_are_results_of_their_own(
    n: int, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "stream_bytes", lambda: 0 if streamed else 1 << 60)
    buffers = [("operand", (n,), "float32"), ("constant", (n,), "float32"), ("result", (n,), "float32")]
    plan = make_plan([("double", (0, 2), (), n, 1)], buffers, [0, 2, 1, 2, 0])
    constant = jnp.arange(n, dtype=jnp.float32)
    f = load(plan, [aval((n,))] * 5, [constant])
    x = jnp.full(n, 3.0)
    poisoned(lambda: f([x]))
    got = f([x])
    wanted = [np.full(n, 3), np.full(n, 6), np.arange(n), np.full(n, 6), np.full(n, 3)]
    for array, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(array), want.astype(np.float32))
    assert len({array.unsafe_buffer_pointer() for array in (*got, x, constant)}) == 7
    got[0].delete()
    got[1].delete()
    assert not x.is_deleted()
    assert not got[3].is_deleted()
    assert float(got[4][2]) == 3


def test_a_constant_survives_its_array() -> None:
    n = 1000
    buffers = [("operand", (n,), "float32"), ("constant", (n,), "float32"), ("result", (n,), "float32")]
    constant = jnp.full(n, 5.0) * 1
    f = load(make_plan([("axpy", (0, 1, 2), (), n, 1)], buffers, [2]), [aval((n,))], [constant])
    constant.delete()
    del constant
    gc.collect()
    rubbish = [jnp.full(n, -1.0) * 1 for _ in range(50)]
    assert (np.asarray(f([jnp.ones(n)])[0]) == 7).all()
    del rubbish


@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_results_are_those_of_jit(weak: bool, committed: bool) -> None:
    # The one way to a weak array of rank 1 is a function of a Python scalar.
    x = jax.jit(lambda s: jnp.broadcast_to(s, (5,)))(1.0 if weak else jnp.float32(1))
    if committed:
        x = jax.device_put(x, jax.devices()[0])
    (got,) = unary("double", 5, weak=weak)([x])
    want = jax.jit(lambda x: x * 2)(x)
    assert got.weak_type == want.weak_type == weak
    assert got.committed == want.committed == committed
    assert got.aval == want.aval
    assert got.sharding == want.sharding
    assert type(got) is type(want)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


# Operands -----------------------------------------------------------------------------------------------------------


def test_numpy_operands_of_all_layouts() -> None:
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    read_only = table[1].copy()
    read_only.flags.writeable = False
    f = unary("double", 6)
    for row in (
        table[0],
        table[1, ::-1],
        table.T[:, 2][[0, 1, 2, 3, 0, 1]],
        np.asfortranarray(table)[2],
        np.broadcast_to(np.float32(3), (6,)),
        table[0].astype(">f4"),
        table[0].astype(np.float64),
        np.frombuffer(b"x" + table[3].tobytes(), np.uint8)[1:].view(np.float32),
        read_only,
    ):
        (got,) = f([row])
        np.testing.assert_array_equal(np.asarray(got), row.astype(np.float32) * 2)
        assert not got.committed


def test_scalars_are_operands() -> None:
    plan = make_plan([("uniform", (0, 1), (), 1, 1)], [("operand", (), "float32"), ("result", (), "float32")], [1])
    f = load(plan, [aval((), weak=True)])
    for scalar in (2, 2.5, True, np.float32(4), np.float64(0.1), np.int64(3), jnp.float32(1.5)):
        (got,) = f([scalar])
        assert np.asarray(got) == np.float32(scalar) * np.float32(3)


def test_an_operand_that_is_still_computed_is_waited_for() -> None:
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 2000, lambda i, c: jnp.sin(c) + 1, x))
    x = jnp.full(1 << 14, 0.5)
    want = np.asarray(slow(x)) * 2
    f = unary("double", 1 << 14)
    y = slow(x)
    waited = not y.is_ready()
    np.testing.assert_array_equal(np.asarray(f([y])[0]), want)
    assert waited, "the operand was ready too soon to show anything"


def test_results_are_operands_of_jit_and_of_us() -> None:
    f = unary("double", 100)
    x = jnp.arange(100.0)
    for _ in range(20):
        x = f([x])[0]
        x = jax.jit(lambda x: x / 2)(x)
    np.testing.assert_array_equal(np.asarray(x), np.arange(100.0))


def test_a_deleted_operand_is_refused_in_the_words_of_jax() -> None:
    x = jnp.ones(3) * 1
    x.delete()
    with pytest.raises(RuntimeError) as of_jax:
        jax.jit(lambda x: x * 2)(x)
    with pytest.raises(DeletedArrayError) as ours:
        unary("double", 3)([x])
    assert str(ours.value) == str(of_jax.value) == "Array has been deleted with shape=float32[3]."


def test_deleting_an_operand_in_use_does_not_free_it() -> None:
    n = 5000
    (x,) = unary("double", n)([jnp.full(n, 2.0)])  # memory of the pool
    address = x.unsafe_buffer_pointer()
    gate = np.zeros(2, np.int64)
    buffers = [("operand", (n,), "float32"), ("constant", (2,), "int64"), ("result", (n,), "float32")]
    f = load(make_plan([("waits", (0, 1, 2), (), n, 1)], buffers, [2]), [aval((n,))])
    f._constants.append(gate)
    f._programs.append(trampolines.Program(_with_constant(f), f._variable, [gate.ctypes.data]))
    got: list[jax.Array] = []
    thread = threading.Thread(target=lambda: got.extend(f([x])))
    thread.start()
    while not gate[1]:
        time.sleep(0.001)
    x.delete()
    others = [unary("double", n)([jnp.full(n, -1.0)])[0] for _ in range(5)]
    assert address not in [other.unsafe_buffer_pointer() for other in others]
    gate[0] = 1
    thread.join()
    assert (np.asarray(got[0]) == 4).all()


def _with_constant(f: Executable) -> list[trampolines.Call]:
    """The calls of a plan whose constant buffer was added by hand."""
    return f._calls


# Donation -----------------------------------------------------------------------------------------------------------


def test_donated_operands_are_deleted() -> None:
    f = unary("double", 100, donated=(0,))
    x = jnp.ones(100) * 1
    (got,) = f([x])
    assert x.is_deleted()
    assert (np.asarray(got) == 2).all()
    (again,) = f([got])
    assert got.is_deleted()
    assert (np.asarray(again) == 4).all()
    assert (np.asarray(f([np.ones(100, np.float32)])[0]) == 2).all()
    with pytest.raises(DeletedArrayError, match="Array has been deleted"):
        f([x])


def test_memory_of_a_donated_result_is_used_again() -> None:
    f = unary("double", 3 * LONG, donated=(0,))
    (x,) = unary("double", 3 * LONG)([jnp.ones(3 * LONG)])
    x, places = f([x])[0], []
    for _ in range(6):
        places.append(x.unsafe_buffer_pointer())
        x = f([x])[0]
    assert len(set(places)) <= 2


@pytest.mark.parametrize(("donated", "places"), [((0,), 2), ((1,), 2), ((0, 1), 2), ((2,), 3), ((0, 2), 3)])
def test_donated_and_used_is_refused_in_the_words_of_jax(donated: tuple[int, ...], places: int) -> None:
    n = 4
    buffers = [*[("operand", (n,), "float32")] * places, *[("result", (n,), "float32")] * places]
    steps = [("double", (i, places + i), (), n, 1) for i in range(places)]
    f = load(make_plan(steps, buffers, range(places, 2 * places)), [aval((n,))] * places, donated=donated)
    x = jnp.ones(n) * 1
    with pytest.raises(jax.errors.JaxRuntimeError) as ours:
        f([x] * places)
    assert not x.is_deleted()
    with pytest.raises(jax.errors.JaxRuntimeError) as of_jax:
        jax.jit(lambda *xs: tuple(x * 2 for x in xs), donate_argnums=donated)(*[x] * places)
    assert str(ours.value) == str(of_jax.value)
    distinct = [jnp.ones(n) * i for i in range(places)]
    f(distinct)
    assert [x.is_deleted() for x in distinct] == [i in donated for i in range(places)]


def test_a_donated_operand_may_be_a_result() -> None:
    plan = make_plan([], [("operand", (50,), "float32")], [0])
    x = jnp.arange(50.0) * 1
    (got,) = load(plan, [aval((50,))], donated=(0,))([x])
    assert x.is_deleted()
    np.testing.assert_array_equal(np.asarray(got), np.arange(50.0))


# Devices ------------------------------------------------------------------------------------------------------------


FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}

PLACES = """\
import json, jax, jax.numpy as jnp, numpy as np
import engine_support as t
from juju.errors import DeviceError
t.compile_kernels()
d = jax.devices()
f, g = t.axpy(4), jax.jit(lambda x, y: x * 2 + y)
u = jnp.arange(4.)
with jax.default_device(d[2]):
    v = jnp.arange(4.)
on = [jax.device_put(u, x) for x in d]
def where(h, *xs):
    try:
        r = h(xs)[0] if h is f else h(*xs)
    except ValueError as error:
        return str(error)
    assert (np.asarray(r) == np.arange(4.) * 3).all()
    return [sorted(x.id for x in r.devices()), r.committed, str(r.sharding)]
f._names = ("x", "y")
f._plan = f._plan.__class__(**{**f._plan.__dict__, "name": "<lambda>"})
cases = {"uu": (u, u), "u1": (u, on[1]), "1u": (on[1], u), "33": (on[3], on[3]), "0u": (on[0], u), "vv": (v, v),
         "uv": (u, v), "v3": (v, on[3]), "12": (on[1], on[2]), "n2": (np.arange(4, dtype=np.float32), on[2])}
out = {name: (where(f, *xs), where(g, *xs)) for name, xs in cases.items()}
with jax.default_device(d[3]):
    out["default"] = (where(f, u, v), where(g, u, v))
    out["default, committed"] = (where(f, u, on[1]), where(g, u, on[1]))
mesh = jax.make_mesh((4,), ("i",))
spread = jax.device_put(u, jax.NamedSharding(mesh, jax.P("i")))
try:
    f([spread, u])
except DeviceError as error:
    out["spread"] = (str(error),) * 2
print(json.dumps(out))
"""


def test_results_lie_where_jit_puts_them() -> None:
    done = run_python(PLACES, **FOUR)
    assert done.stderr == ""
    places = json.loads(done.stdout)
    for name, (ours, of_jax) in places.items():
        assert ours == of_jax, name
    assert places["33"][0][:2] == [[3], True]
    assert places["uu"][0][:2] == [[0], False]
    assert places["default"][0][:2] == [[3], False]
    assert places["12"][0].startswith(
        "Received incompatible devices for jitted computation. Got argument x of <lambda>"
    )
    assert places["spread"][0] == (
        "argument x of <lambda> is spread over 4 devices; juju runs on one. Call the function inside jax.shard_map, or "
        "through jax.jit."
    )


def test_devices_of_nothing_are_the_default() -> None:
    assert check_devices([], [], "f") == (jax.devices()[0], False)
    assert check_devices([np.ones(3), 2.0]) == (jax.devices()[0], False)


def test_a_device_that_is_no_cpu_is_refused() -> None:
    gpu = mock.Mock(platform="gpu", __str__=lambda self: "cuda:0")
    array = mock.Mock(spec=jax.Array, devices=lambda: {gpu})
    assert isinstance(array, jax.Array)
    with pytest.raises(DeviceError, match=r"^juju runs on CPU, and argument x of f is on cuda:0\. Move it there with"):
        check_devices([array], ["x"], "f")

"""The `linked` engine: the results of `jax.jit` from kernels inside a MAX graph; what it keeps, exports and reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.core import ShapedArray
from support import DTYPES, Batch, Case, assert_same

import juju
from juju.build import kernel_key
from juju.build.store import Store
from juju.engines import graphs, linked
from juju.errors import DeletedArrayError
from juju.mojo import linked as package_text
from juju.plan import Buffer, Kernel, Launch, Plan

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal(300).astype(np.float32)
BIG = RNG.standard_normal(300_001).astype(np.float32)


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(0, 2 if dtype == "bool" else 50, shape).astype(jnp.dtype(dtype))


def arithmetic(x):
    return (~x, x & True) if x.dtype == bool else (x * 2 + 1, x - x // 3 if x.dtype.kind in "iu" else x / 4)


def everything(x, y):
    """Results of each kind: computed, an operand, a constant, repeated, empty, reshaped, of rank 0."""
    z = x + y
    return z, x, z, jnp.asarray(WEIGHTS), jnp.zeros((0, 3)), z.reshape(4, 3), y * 2, jnp.float32(7)


def chain(x, y):
    """More kernels than one: a kernel ends where another shape begins."""
    a = x * 2 + y
    return a.reshape(6, 50) + 1, a.reshape(300) - jnp.asarray(WEIGHTS), x.sum if False else y + 1


def halves_as_bits(x):
    return jax.lax.bitcast_convert_type(x * 0.5, jnp.int32)


def pair(x, y):
    return x * y + 1, x


def case(name: str, f: Any, *args: Any, x64: bool = False, **options: Any) -> Case:
    return Case(name, f, args, kernels=None, x64=x64, options={"engine": "linked", **options})


CASES = Batch(
    [
        *(case(f"arithmetic {dtype}", arithmetic, values(dtype, (67,)), x64=True) for dtype in DTYPES),
        case("everything", everything, values("float32", (3, 4)), 0.5),
        case("chain", chain, values("float32", (3, 100)), 0.25),
        case("rank 0", lambda x, y: (x + y) * 2, 5, 10),
        case("no operand", lambda: (jnp.full((5,), 2.5), jnp.zeros((0, 2)), jnp.int32(3))),
        case("empty", lambda x: (x + 1, x), np.zeros((0, 7), np.float32)),
        case("identity", lambda x: x, WEIGHTS),
        case("captured scalar and array", lambda x: x * WEIGHTS + WEIGHTS[3], WEIGHTS),
        case("threads", lambda x, y: (x * y - x, x > y), BIG, BIG[::-1].copy()),
        case("weak type", lambda x: x * 2, 3.0),
        case("strides", lambda x: x + 1, np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-1]),
        case(
            "special values", lambda x: (x * 2, -x, jnp.abs(x)), np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
        ),
        # As bits, because floats that are nearly zero count as equal elsewhere; on the calling thread, and on others.
        *(
            case(f"subnormals {n}", halves_as_bits, np.resize(np.array([2e-38, 1.5e-39], np.float32), n))
            for n in (8, len(BIG))
        ),
        case("small pair", pair, np.ones(8, np.float32), np.ones(8, np.float32)),
        case("many", lambda xs: [x + n for n, x in enumerate(xs)] + xs[:2], [np.float32(n) for n in range(100)]),
        case("pytree", lambda d: {"out": (d["a"] - d["b"], None)}, {"a": WEIGHTS, "b": np.float32(2)}),
    ]
)


@CASES.parametrize()
def test_against_jax(name) -> None:
    CASES.check(name)


def test_both_engines_give_the_same() -> None:
    x, y = values("float32", (3, 4)), 0.5
    assert_same(juju.fuse(everything)(x, y), juju.fuse(everything, engine="linked")(x, y))


# Plans written by hand ---------------------------------------------------------------------------------------------

KERNEL = """
@export
def {symbol}(args: Pointer[Int64, MutAnyOrigin], lo: Int, hi: Int) abi("C") -> Int:
    var x = args.unsafe_bitcast[Pointer[Float32, MutAnyOrigin]]()[unsafe_offset=0]
    var y = args.unsafe_bitcast[Pointer[Float32, MutAnyOrigin]]()[unsafe_offset=1]
    var first = Float32(Int(args[unsafe_offset=2]))
    if Int(args[unsafe_offset=3]) >= lo and Int(args[unsafe_offset=3]) < hi:
        return 1000 + Int(args[unsafe_offset=3])
    for i in range(lo, hi):
        {body}
    return 0
"""


def kernel(name: str, body: str) -> Kernel:
    text = KERNEL.format(symbol="SYMBOL", body=body)
    key = kernel_key(text, ())
    return Kernel(name, f"{name}_{key[:16]}", key, text.replace("SYMBOL", f"{name}_{key[:16]}"))


def two_steps(name: str, n: int, fails_at: int = -1, cost: float = 1.0) -> Plan:
    """y = x + 3, z = y * 2, with y in scratch memory; the second launch returns a status at one point."""
    add = kernel("add", "y[unsafe_offset=i] = x[unsafe_offset=i] + first")
    double = kernel("double", "y[unsafe_offset=i] = x[unsafe_offset=i] * 2")
    return Plan(
        name=name,
        kernels=(add, double),
        buffers=tuple(Buffer(kind, 0, (n,), "float32") for kind in ("operand", "scratch", "result")),
        steps=(
            Launch(0, (0, 1), (3, -1), n, cost, writes=(1,)),
            Launch(1, (1, 2), (0, fails_at), n, cost, writes=(1,)),
        ),
        results=(2,),
    )


@pytest.fixture(scope="module")
def by_hand() -> dict[str, linked.Executable]:
    plans = [
        two_steps("small", 100),
        two_steps("odd", 70_001, cost=10.0),
        two_steps("failing", 1000, fails_at=999),
        two_steps("failing_in_a_thread", 70_001, fails_at=40_000, cost=10.0),
    ]
    aval = [ShapedArray((plan.buffers[2].shape), np.dtype("float32")) for plan in plans]
    loaded = linked.load_all([linked.Request(plan, (), [a]) for plan, a in zip(plans, aval, strict=True)])
    return {plan.name: done for plan, done in zip(plans, loaded, strict=True)}  # type: ignore[misc]


@pytest.mark.parametrize("name", ["small", "odd"])
def test_launches_in_order_through_scratch_memory(by_hand, name) -> None:
    n = by_hand[name].plan.buffers[0].shape[0]
    x = jnp.arange(n, dtype=jnp.float32)
    for _ in range(3):
        (got,) = by_hand[name]([x])
        np.testing.assert_array_equal(np.asarray(got), (np.arange(n, dtype=np.float32) + 3) * 2)


@pytest.mark.parametrize(("name", "status"), [("failing", 1999), ("failing_in_a_thread", 41_000)])
def test_status_of_a_kernel(by_hand, name, status) -> None:
    x = jnp.zeros(by_hand[name].plan.buffers[0].shape)
    with pytest.raises(juju.KernelStatusError, match=rf"^kernel double_\w+ of {name} returned status {status}$"):
        by_hand[name]([x])
    np.testing.assert_array_equal(np.asarray(by_hand["small"]([jnp.zeros(100)])[0]), 6.0)


def test_launches_of_one_kernel_share_an_op() -> None:
    plans = [two_steps("a", 100), two_steps("b", 7)]
    ops = package_text.ops_of(plans)
    assert [op.kernel.name for op in ops.values()] == ["add", "double"]
    assert package_text.render(ops)["ops.mojo"].count("@extensibility.register") == 2


def test_a_symbol_for_two_kernels_is_refused() -> None:
    plan = two_steps("clash", 10)
    other = Kernel("other", plan.kernels[0].symbol, "0" * 64, plan.kernels[0].text)
    clash = Plan("clash", (other, plan.kernels[1]), plan.buffers, plan.steps, plan.results)
    with pytest.raises(juju.InternalError, match="two kernels of clash have the symbol add_"):
        package_text.ops_of([plan, clash])


def test_a_buffer_that_nothing_writes_is_refused() -> None:
    plan = two_steps("hole", 10)
    hole = Plan("hole", plan.kernels, plan.buffers, plan.steps[1:], (1, 2))
    with pytest.raises(juju.InternalError, match="hole reads buffer 1, which no step writes"):
        linked.build_graph(hole)


def test_a_kernel_that_mojo_refuses_does_not_stop_the_others() -> None:
    good, bad = two_steps("small", 100), two_steps("bad", 100)
    broken = Kernel("broken", "broken_0", "b" * 64, "@export\ndef broken_0() -> nonsense:\n    pass\n")
    bad = Plan("bad", (broken, bad.kernels[1]), bad.buffers, bad.steps, bad.results)
    avals = [ShapedArray((100,), np.dtype("float32"))]
    done = linked.load_all([linked.Request(plan, (), avals) for plan in (good, bad)])
    assert isinstance(done[0], linked.Executable)
    assert isinstance(done[1], juju.KernelCompileError)
    assert "nonsense" in str(done[1])


# What is kept ------------------------------------------------------------------------------------------------------


class FakeMax:
    """Stands for MAX's compiler, which takes seconds: writes what a compile would, and counts."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.compiled: list[list[str]] = []
        self.seconds = seconds

    def __call__(self, module: Any, extensions: Any, output: Path) -> None:
        self.compiled.append(module.top_level_graph_names())
        time.sleep(self.seconds)
        output.write_bytes(b"a compiled graph " * 100)


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    """An empty store; packages are compiled elsewhere, as they are the same."""
    fresh = Store(tmp_path / "a store with 'quotes'")
    monkeypatch.setattr(graphs, "default_store", lambda: fresh)
    return fresh


def compile_draft(key: str, name: str = "f") -> graphs.Place:
    plan = two_steps(name, 16)
    draft = graphs.Draft(name, lambda graph, module: linked._build(plan, (), -1, graph, module, graphs.Unchecked()), ())
    return graphs.compile_drafts({key: draft})[key]


def test_one_compile_for_many_threads(store, monkeypatch) -> None:
    fake = FakeMax(seconds=0.2)
    monkeypatch.setattr(graphs, "_compile_module", fake)
    places: list[graphs.Place] = []
    threads = [threading.Thread(target=lambda: places.append(compile_draft("a" * 64))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(places) == 8
    assert len(set(places)) == 1
    assert fake.compiled == [["f"]]
    assert graphs.find("a" * 64, store) == places[0]


def test_a_damaged_file_is_compiled_again(store, monkeypatch) -> None:
    fake = FakeMax()
    monkeypatch.setattr(graphs, "_compile_module", fake)
    place = compile_draft("a" * 64)
    whole = place.path.read_bytes()
    place.path.write_bytes(whole[:100])
    assert graphs.find("a" * 64, store) is None
    assert compile_draft("a" * 64).path.read_bytes() == whole
    assert len(fake.compiled) == 2


def test_keys_tell_apart_what_differs() -> None:
    def key(plan: Plan, **options: Any) -> str:
        return linked._key(linked.Request(plan, (), **options), None)

    plan = two_steps("f", 100)
    assert key(plan) == key(two_steps("another name", 100))
    others = [
        two_steps("f", 101),
        two_steps("f", 100, fails_at=5),
        Plan("f", plan.kernels, plan.buffers, plan.steps, (2, 2)),
    ]
    keys = [key(p) for p in (plan, *others)] + [key(plan, embed=True)]
    assert len(set(keys)) == len(keys)

    captured = juju.fuse(lambda x: x + WEIGHTS).lower(WEIGHTS).plan
    constants = [[jnp.asarray(WEIGHTS)], [jnp.asarray(WEIGHTS) + 1]]
    assert len({linked._key(linked.Request(captured, c), None) for c in constants}) == 1
    assert len({linked._key(linked.Request(captured, c, embed=True), None) for c in constants}) == 2


# Graphs to look at, and files to take away ---------------------------------------------------------------------------


def test_graph_text() -> None:
    lowered = juju.fuse(chain).lower(values("float32", (3, 100)), 0.25)
    text = lowered.as_text("graph")
    assert text.count("mo.custom") == len(lowered.plan.launches)
    for kernel in lowered.kernels:
        assert f'symbol = "{kernel.symbol}"' in text
    assert "_kernel_library_paths" not in text
    # The large constant is an input, so it is not in the text.
    assert len(text) < 5000
    (constant,) = linked.build_graph(lowered.plan, lowered._constants()).constants
    np.testing.assert_array_equal(np.asarray(constant), WEIGHTS)


def test_small_constants_stand_in_the_graph() -> None:
    text = juju.fuse(lambda x: x + jnp.array([1.5, -2.5, 3.5])).lower(np.zeros(3, np.float32)).as_text("graph")
    assert "mo.constant <#M.dense_array<1.500000e+00, -2.500000e+00, 3.500000e+00>" in text


RUN_ALONE = """
import json, sys
sys.modules["juju"] = None  # only MAX
import numpy as np
from max.driver import CPU, Buffer
from max.engine import InferenceSession
model = InferenceSession(devices=[CPU()]).load(sys.argv[1])
x = Buffer.from_numpy(np.arange(300, dtype=np.float32).reshape(3, 100))
results = model.execute(x, Buffer.from_numpy(np.array(0.25, np.float32)))
print(json.dumps([r.to_numpy().tolist() for r in results]))
"""


def test_export_runs_without_juju(tmp_path) -> None:
    x = np.arange(300, dtype=np.float32).reshape(3, 100)
    compiled = juju.fuse(chain).lower(x, 0.25).compile()
    path = compiled.export(tmp_path / "it's a model.mef")
    environment = {**os.environ, "MODULAR_CACHE_DIR": str(tmp_path / "empty"), "HOME": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    words = [sys.executable, "-c", RUN_ALONE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for got, want in zip(json.loads(done.stdout), jax.jit(chain)(x, 0.25), strict=True):
        np.testing.assert_array_equal(np.asarray(got, np.float32), np.asarray(want))


INTERRUPTED = """
import sys, time
import jax.numpy as jnp
import juju

def say(event):
    if event.stage == "graph" and event.state == "start":
        print("compiling", flush=True)

def interrupted(x):
    return x * {number} + 1

try:
    juju.fuse(interrupted, engine="linked").lower(jnp.ones(3)).compile(progress=say)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_compile(tmp_path) -> None:
    # A constant no other run has, so that no cache of MAX knows the graph.
    program = textwrap.dedent(INTERRUPTED).format(number=time.time_ns() % 1_000_003)
    environment = {**os.environ, "JUJU_CACHE_DIR": str(tmp_path / "store")}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "compiling\n"
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - began < 1
    finally:
        process.kill()
        process.communicate()
    assert not list((tmp_path / "store").rglob("*.mef"))


# Calls -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> juju.Fused:
    fused = juju.fuse(pair, engine="linked")
    fused(jnp.ones(8), jnp.ones(8))
    return fused


def test_a_deleted_array(small) -> None:
    x = jnp.ones(8)
    x.delete()
    with pytest.raises(DeletedArrayError, match="deleted"):
        small(x, jnp.ones(8))


def test_results_are_committed_as_in_jax(small) -> None:
    x = jax.device_put(jnp.ones(8), jax.devices()[0])
    assert all(r.committed for r in small(x, jnp.ones(8)))
    assert not any(r.committed for r in small(jnp.ones(8), jnp.ones(8)))


def test_threads_call_one_executable(small) -> None:
    failures = []

    def work(seed: int) -> None:
        for n in range(50):
            x = jnp.full(8, seed + n, jnp.float32)
            product, same = small(x, x)
            if float(product[0]) != (seed + n) ** 2 + 1 or float(same[7]) != seed + n:
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_results_do_not_share_memory_with_arguments(small) -> None:
    x = jnp.ones(8)
    pointers = {x.unsafe_buffer_pointer(), *(r.unsafe_buffer_pointer() for r in small(x, x))}
    assert len(pointers) == 3


IN_ANOTHER_THREAD = """
import os, threading
import jax.numpy as jnp
import juju

f = juju.fuse(lambda x, y: (x * y + 1, x), engine="linked", name="pair")
text = []
thread = threading.Thread(target=lambda: text.append(str(juju.make_max_graph(lambda x: x * 3)(jnp.ones(4)))))
thread.start()
thread.join()
assert "mo.custom" in text[0]
assert "mo.custom" in str(juju.make_max_graph(lambda x: x * 3)(jnp.ones(4)))
f(jnp.ones(8), jnp.ones(8))
child = os.fork()
if child == 0:
    try:
        f(jnp.ones(8), jnp.ones(8))
    except juju.ForkError:
        os._exit(42)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
"""


def test_max_is_first_used_in_another_thread_and_then_forked(small) -> None:
    words = [
        sys.executable,
        "-W",
        "ignore::RuntimeWarning",
        "-W",
        "ignore::DeprecationWarning",
        "-c",
        IN_ANOTHER_THREAD,
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""

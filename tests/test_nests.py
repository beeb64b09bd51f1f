"""Nests made by hand against NumPy: reads at any map, computed reads, reductions, running totals."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import jax
import numpy as np
import pytest
from nest_cases import CASES, RNG, Case
from nest_cases_reduced import running, total
from nest_support import build, nest, plan_of


def test_texts_are_formatted(tmp_path: Path) -> None:
    """Generated text is stable under `mojo format`."""
    from juju.build import toolchain

    texts = {}
    for n, case in enumerate(CASES.values()):
        texts |= {f"{n}_{k}.mojo": kernel.text for k, kernel in enumerate(plan_of(case.text)[0].kernels)}
    for file, text in texts.items():
        (tmp_path / file).write_text(text)
    command = [str(toolchain().mojo), "format", "--quiet", "-l", "120", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    assert not [file for file, text in texts.items() if (tmp_path / file).read_text() != text]


def several(*texts: str) -> str:
    """The nests of some functions in one function, which makes one kernel of them."""
    params, bodies, names, types = [], [], [], []
    for n, text in enumerate(texts):
        head, _, rest = text.strip().partition(" {\n")
        body, _, _ = rest.rpartition("func.return")
        given, _, made = head.partition("(")[2].partition(") -> (")
        for variable in re.findall(r"%a\d+(?=:)", given):
            given, body = (re.sub(rf"{variable}\b", f"%p{n}{variable[1:]}", s) for s in (given, body))
        body = re.sub(r"%r0\b", f"%r0p{n}", body)
        params += [given] if given else []
        bodies.append(body)
        names.append(f"%r0p{n}")
        types.append(made.rpartition(")")[0] or made)
    types = [t.removesuffix(")") for t in types]
    return (
        f"func.func @f({', '.join(params)}) -> ({', '.join(types)}) {{\n{''.join(bodies)}"
        f"  func.return {', '.join(names)} : {', '.join(types)}\n}}\n"
    )


TOGETHER = (
    "softmax 300",
    "softmax down 16",
    "turned 70 130 f32",
    "iota",
    "argmax 7",
    "any sum 16 1",
    "padded",
    "int max 3",
)
CASES["together"] = Case(
    several(*(CASES[name].text for name in TOGETHER)),
    [x for name in TOGETHER for x in CASES[name].operands],
    lambda *xs: tuple(CASES[name].expect(*CASES[name].operands) for name in TOGETHER),
    1e-5,
)


@pytest.fixture(scope="module")
def built():
    return dict(zip(CASES, build([case.text for case in CASES.values()]), strict=True))


def test_results_do_not_depend_on_threads(built) -> None:
    for name, case in CASES.items():
        run = built[name]
        whole = run.in_pieces(case.operands, 1 << 40)
        for points in (64, 192):
            for one, other in zip(whole, run.in_pieces(case.operands, points), strict=True):
                assert one.tobytes() == other.tobytes(), name


def test_large_results_go_around_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("juju._lower.stream_bytes", lambda: 0)
    cases = [case for name, case in CASES.items() if name.startswith(("turned 64", "turned 70", "strided"))]
    for case, run in zip(cases, build([case.text for case in cases]), strict=True):
        assert "stream" in run.plan.kernels[0].text
        assert run.plan.launches[0].sizes[-1] == 1
        np.testing.assert_array_equal(run(*case.operands)[0], case.expect(*case.operands))


def test_long_sums_are_as_accurate_as_those_of_xla() -> None:
    n = 10_000_000
    x = RNG.random(n, dtype=np.float32)
    flat, row, down = f"{n}xf32", f"{n // 10}xf32", f"{n // 16}x16xf32"
    texts = [
        nest((n,), [(flat, "d0")], [("f32", "")], total("add"), reduced=(0,)),
        nest((n // 16, 16), [(down, "d0, d1")], [("16xf32", "d1")], total("add"), reduced=(0,)),
        nest((n // 10,), [(row, "d0")], [(row, "d0")], running("add"), reduced=(0,)),
        nest(
            (n // 16, 16),
            [(f"{n // 16}x16xf32", "d0, d1")],
            [(f"{n // 16}x16xf32", "d0, d1")],
            running("add"),
            reduced=(0,),
        ),
    ]
    theirs = [lambda x: x.sum(), lambda x: x.sum(0), lambda x: jax.numpy.cumsum(x), lambda x: jax.numpy.cumsum(x, 0)]
    exact = [np.sum, lambda x: x.sum(0), np.cumsum, lambda x: x.cumsum(0)]
    arrays = [x, x.reshape(-1, 16), x[: n // 10], x.reshape(-1, 16)]
    for run, other, reference, a in zip(build(texts), theirs, exact, arrays, strict=True):
        want = reference(a.astype("f8"))
        error, bound = (np.max(np.abs(y - want) / want) for y in (run(a)[0], np.asarray(jax.jit(other)(a))))
        assert error <= max(bound, 2e-7), run.plan.kernels[0].text


@pytest.mark.parametrize("name", CASES)
def test_nest(name: str, built) -> None:
    found = built[name](*CASES[name].operands)
    expected = CASES[name].expect(*CASES[name].operands)
    for got, want in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if CASES[name].tolerance:
            np.testing.assert_allclose(got, want, rtol=CASES[name].tolerance, atol=CASES[name].tolerance)
        else:
            np.testing.assert_array_equal(got, want)

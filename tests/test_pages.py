"""The generated pages of the documentation are in step with the table, the harnesses and what is measured."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import jax
import pytest

from juju.dialect.table import ROWS

ROOT = Path(__file__).resolve().parents[1]


def tool(name: str):
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "tools"))


def text(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of the tables of a text, without their heads."""
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def sections(page: str) -> dict[str, str]:
    """The parts of a page by their headings."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# Accuracy ------------------------------------------------------------------------------------------------------------

FLOATS = ("float32", "float64", "bfloat16", "float16")


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_inexact_operation_is_on_the_page(dtype: str) -> None:
    accuracy = tool("accuracy_page")
    found = {cells[0].strip("`"): cells for cells in rows(sections(text("accuracy"))[dtype])}
    assert set(found) == set(accuracy.inexact())
    for name, cells in found.items():
        row = ROWS[name]
        narrow = dtype in accuracy.HALVES and row.accuracy != "as JAX"
        assert cells[1] == ("1 ulp" if narrow else row.accuracy)


@pytest.mark.parametrize("dtype", FLOATS)
def test_measured_errors_are_within_what_is_stated(dtype: str) -> None:
    for name, stated, ours, *_ in rows(sections(text("accuracy"))[dtype]):
        if stated.endswith(" ulp"):
            assert float(ours) <= float(stated.split()[0]), name


def test_errors_above_those_of_jax_have_a_reason() -> None:
    page = sections(text("accuracy"))
    behind = set(re.findall(r"^\* `(\w+ \w+)`: .+ ulp\. \S", page["Where juju is behind"], re.MULTILINE))
    larger = set()
    for dtype in FLOATS:
        for name, _, ours, _, theirs, *_ in rows(page[dtype]):
            if theirs != "not finite" and float(ours) > float(theirs) + 1:
                larger.add(f"{name.strip('`')} {dtype}")
    assert larger <= behind


def test_subnormal_numbers_of_every_operation() -> None:
    subnormals = tool("subnormals")
    section = sections(text("accuracy"))["Subnormal numbers"]
    for dtype in FLOATS:
        named = re.findall(r"`([^`]+)`", "".join(re.findall(rf"^\| {dtype} .*$", section, re.MULTILINE)))
        assert set(named) <= set(subnormals.calls(dtype))
        assert len(named) == len(set(named)) > 50


@pytest.mark.slow
def test_a_sample_of_points_is_within_what_is_stated() -> None:
    accuracy = tool("accuracy_page")
    bounds = {operation.row.name: operation.bound for operation in accuracy.operations()}
    for (name, dtype), measured in accuracy.measure(quick=True).items():
        bound = 1.0 if dtype in accuracy.HALVES else bounds[name]
        if bound is not None and ROWS[name].accuracy != "as JAX":
            assert measured.ours <= bound, (name, dtype, measured)


@pytest.mark.slow
def test_subnormal_numbers_are_as_the_page_says() -> None:
    accuracy, subnormals = tool("accuracy_page"), tool("subnormals")
    section = sections(text("accuracy"))["Subnormal numbers"]
    written = [line for line in section.splitlines() if line.startswith("| float32 ")]
    assert written
    page = accuracy.page({}, subnormals.survey(["float32"]))
    assert [line for line in page.splitlines() if line.startswith("| float32 ")] == written


# Coverage ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def coverage():
    pytest.importorskip("absl", reason="JAX's harnesses need absl-py")
    pytest.importorskip("jax._src.internal_test_util.test_harnesses", reason="this JAX ships no harnesses")
    if f"it is of JAX {jax.__version__}" not in text("coverage"):
        pytest.skip(f"the page is not of JAX {jax.__version__}")
    return tool("coverage_page")


def test_groups_are_those_of_the_harnesses(coverage) -> None:
    page = sections(text("coverage"))
    for family, groups in coverage.families().items():
        found = rows(page[family.capitalize()])
        assert [cells[0].strip("`") for cells in found] == groups
        for cells in found:
            real, gaps, complex_ = coverage.counts(cells[0].strip("`"))
            harnesses, run, passed, *rest = (int(c) for c in cells[1:])
            assert [harnesses, *rest] == [real, gaps, complex_], cells[0]
            assert 0 < passed <= run <= real
            assert run - passed <= gaps


def test_other_groups_are_named(coverage) -> None:
    named = re.findall(r"`(\w+)` (\d+)", sections(text("coverage"))["Not yet"])
    assert {name: int(count) for name, count in named} == coverage.left_out()


def test_primitives_are_those_of_the_registry(coverage) -> None:
    from juju.rules import RULES

    compiled, missing = re.findall(r", (\d+): (.+)\.$", sections(text("coverage"))["Primitives"], re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", compiled[1]) == sorted(RULES)
    assert re.findall(r"`([\w-]+)`", missing[1]) == coverage.missing()
    assert (int(compiled[0]), int(missing[0])) == (len(RULES), len(coverage.missing()))

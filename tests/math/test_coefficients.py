"""The polynomials in the Mojo files are those that the tool derives: a few families, the whole by `--check`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = ("EXP", "SINH", "LOG", "SIN", "COS", "ERF", "LGAMMA_LARGE", "SINPI")


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("coefficients")
    sys.path.remove(str(ROOT / "tools"))


def generated() -> str:
    folder = ROOT / "kernels" / "juju_math"
    return (folder / "coefficients.mojo").read_text() + (folder / "special_coefficients.mojo").read_text()


@pytest.mark.parametrize("name", FAMILIES)
def test_polynomial_is_derived(tool, name):
    (family,) = (f for f in [*tool.elementary(), *tool.special()] if f.name == name)
    assert tool.family_text(family) in generated()


def test_constants_are_derived(tool):
    assert tool.constants() in generated()

"""Replay: the kernels of the gallery are the ones in `generated/`; `make golden` writes them again.

Symbols in the files end where the content hash would follow, so that a change of a helper package changes no file here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import juju

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from gallery import GALLERY  # noqa: E402

GENERATED = ROOT / "generated"
OTHER_SINCE = {"black_scholes_greeks": (0, 11)}
"""Exhibits whose jaxpr changed with a JAX release: 0.12 differentiates erfc in another way."""


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments in generated text name files relative to the working directory."""
    monkeypatch.chdir(ROOT)


def generated(name: str) -> str:
    exhibit = GALLERY[name]
    lowered = juju.fuse(exhibit.f).lower(*exhibit.args)
    return re.sub(r"\b(def \w+)_[0-9a-f]{16}\(", r"\1(", lowered.as_text("mojo"))


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("name", GALLERY)
def test_replay(name: str, request: pytest.FixtureRequest) -> None:
    if name in OTHER_SINCE and jax.__version_info__ >= OTHER_SINCE[name]:
        pytest.skip(f"JAX {jax.__version__} traces {name} to other equations than the JAX the file is from")
    text, file = generated(name), GENERATED / f"{name}.mojo"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(text)
    assert file.exists(), "`make golden` writes it"
    assert text == file.read_text(), "the generated kernel has changed; read the difference, then `make golden`"


def test_every_file_is_of_an_exhibit() -> None:
    assert {file.stem for file in GENERATED.glob("*.mojo")} == set(GALLERY)


@pytest.mark.usefixtures("at_root")
def test_kernels_are_as_many_as_the_gallery_says() -> None:
    for name, exhibit in GALLERY.items():
        assert len(juju.fuse(exhibit.f).lower(*exhibit.args).plan.launches) == exhibit.kernels, name


def test_halves_put_together_are_read_without_divisions() -> None:
    """Where a half is not read its index is out of bounds; as a position in a flat array it would be divided."""
    text = generated("rotary")
    assert "int_div" not in text
    assert "gather" not in text


def test_files_are_formatted(tmp_path: Path) -> None:
    """Generated text is stable under `mojo format`."""
    from juju.build import toolchain

    for file in GENERATED.glob("*.mojo"):
        shutil.copy(file, tmp_path)
    command = [str(toolchain().mojo), "format", "--quiet", "-l", "120", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    changed = [f.name for f in GENERATED.glob("*.mojo") if f.read_text() != (tmp_path / f.name).read_text()]
    assert not changed


def test_text_does_not_depend_on_sizes() -> None:
    import jax
    import jax.numpy as jnp

    def f(x, y):
        return jnp.exp(x) * y

    keys = {
        juju.fuse(f).lower(jax.ShapeDtypeStruct(shape, jnp.float32), 1.0).kernels[0].key
        for shape in ((16,), (1000,), (3, 5, 7), (1,), (1, 1))
    }
    assert len(keys) == 1

"""The wheel, the metadata, and that what the documents say is there, is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

import juju
from juju import errors
from juju.build.toolchain import MAX_TESTED, MOJO_TESTED
from juju.cli import main
from juju.cli.doctor import JAX_TESTED, PYTHON_TESTED, XDSL_TESTED
from juju.passes import PASSES

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

MODEL = """
import jax.numpy as jnp

def f(x, y):
    return jnp.sin((x + y) ** 2)
"""

SCRIPT = """
import jax, jax.numpy as jnp, juju
from juju._resources import resource_dir
from model import f

assert str(juju.__file__).startswith({target!r}), juju.__file__
for name in ("templates", "kernels"):
    assert str(resource_dir(name)).startswith({target!r}), resource_dir(name)
x, y = jnp.arange(7.0), jnp.float32(2.0)
assert jnp.allclose(juju.fuse(f)(x, y), jax.jit(f)(x, y), rtol=1e-5, atol=1e-6)
print("fused and right")
"""


def run(*command: object, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("the user's site")  # with a space and a quote, as some have
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "-q",
        "--target",
        target,
        wheel,
    )
    return target


def tracked(folder: str) -> set[str]:
    """Files of a folder that git does not ignore."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", "--", folder, cwd=ROOT).stdout.splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def test_wheel_holds_sources_templates_and_kernels(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {name.removeprefix("src/") for name in tracked("src/juju")}
    wanted |= {f"juju/_data/{name}" for folder in ("templates", "kernels") for name in tracked(folder)}
    assert any(name.startswith("juju/_data/templates/") for name in wanted)
    assert any(name.startswith("juju/_data/kernels/") for name in wanted)
    assert names == wanted


def test_wheel_metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    scripts = archive.read(f"{info}/entry_points.txt").decode()
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "juju = juju.cli:main" in scripts
    assert "juju-opt = juju.cli.opt:main" in scripts
    assert "License-Expression: Apache-2.0" in metadata
    assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_wheel_of_the_sdist_is_the_same(wheel, tmp_path):
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (sdist,) = tmp_path.glob("*.tar.gz")
    run("tar", "xf", sdist, "-C", tmp_path)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=folder)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_installed_wheel_works_without_the_sources(installed, tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    env = {**os.environ, "PYTHONPATH": str(installed)}
    emitted = run(installed / "bin/juju", "codegen", "model.py:f", "--args", "f32[9], f32[]", cwd=tmp_path, env=env)
    assert "@export" in emitted.stdout
    script = SCRIPT.format(target=str(installed))
    assert run(sys.executable, "-c", script, cwd=tmp_path, env=env).stdout == "fused and right\n"
    assert "juju.nest" in run(
        *(installed / "bin/juju", "codegen", "model.py:f", "--args", "f32[9], f32[]", "--emit", "mlir"),
        cwd=tmp_path,
        env=env,
    ).stdout  # fmt: skip
    assert "usage" in run(installed / "bin/juju-opt", "--help", cwd=tmp_path, env=env).stdout


# --- versions ---------------------------------------------------------------------------------------------------------


def dependency_range(name: str) -> tuple[str, str]:
    (found,) = (d for d in PYPROJECT["project"]["dependencies"] if re.match(rf"{name}[><=]", d))
    match = re.fullmatch(rf"{name}>=([\d.]+),<([\d.]+)", found)
    assert match, f"{found} has not the form {name}>=LOW,<HIGH"
    return match[1], match[2]


@pytest.mark.parametrize(
    ("name", "tested"), [("mojo", MOJO_TESTED), ("max", MAX_TESTED), ("jax", JAX_TESTED), ("xdsl", XDSL_TESTED)]
)
def test_dependencies_are_the_tested_range(name, tested):
    assert dependency_range(name) == tuple(tested)


def test_python_versions_agree():
    (low_major, low), (high_major, high) = PYTHON_TESTED
    assert PYPROJECT["project"]["requires-python"] == f">={low_major}.{low},<{high_major}.{high + 1}"
    classifiers = [c for c in PYPROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert [c.rpartition(".")[2] for c in classifiers] == [str(minor) for minor in range(low, high + 1)]


def test_version_is_one():
    assert juju.__version__ == PYPROJECT["project"]["version"]


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_documents_lead_somewhere(document):
    text = document.read_text()
    anchors = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)", text, re.M)
    }
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif not link.startswith("http"):
            assert (document.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_of_documents_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"^\s*make ([a-z-]+)|`make ([a-z-]+)", document.read_text(), re.M))
    assert {one or other for one, other in named} <= targets


def test_passes_of_documents_exist():
    text = "".join(document.read_text() for document in DOCUMENTS)
    pipelines = re.findall(r"(?:juju-opt .*|`)-p '?([a-z][\w,{}=-]+)", text)
    names = {name for passes in pipelines for name in re.sub(r"\{.*?\}", "", passes).split(",")}
    assert {"cse", "juju-fuse"} <= names <= set(PASSES)


def test_picture_is_readable_xml():
    root = ElementTree.parse(ROOT / "docs/assets/pipeline.svg").getroot()
    assert root.get("aria-label")


def test_every_error_is_documented():
    text = (ROOT / "docs/errors.md").read_text()
    public = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, (errors.JujuError, Warning)) and value is not errors.JujuError
    ]
    assert len(public) > 10
    for name in public:
        assert re.search(rf"^## {name}$", text, re.M), f"docs/errors.md has no section on {name}"


def commands(group: click.Group, path: str = "juju"):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


@pytest.mark.parametrize(
    ("path", "command"), list(commands(main)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_and_option_is_documented(path, command):
    text = (ROOT / "docs/cli.md").read_text()
    assert path in text
    section = text[text.index(f"## {' '.join(path.split()[:2])}") :].split("\n## ")[0]
    for param in command.params:
        if param.name not in ("debug", "help") and isinstance(param, click.Option):
            longest = max(param.opts, key=len)
            assert any(option in section for option in param.opts), f"{path} {longest} is not in docs/cli.md"


def test_every_environment_variable_is_documented():
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"""environ(?:\.get\(|\[)["'](JUJU_\w+)""", sources))
    assert "JUJU_CACHE_DIR" in named
    table = (ROOT / "docs/cli.md").read_text().split("## Environment variables")[1]
    for name in named:
        assert f"`{name}`" in table, f"docs/cli.md does not list {name}"


def test_scripts_are_valid_bash():
    run("bash", "-n", ROOT / ".ci/run")
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_make_help_lists_every_documented_target():
    shown = run("make", "-s", "help", cwd=ROOT).stdout
    documented = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert len(documented) > 5
    for target in documented:
        assert f"make {target}" in shown

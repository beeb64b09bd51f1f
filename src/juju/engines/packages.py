"""Compiled Mojo packages of custom ops: a plan's own, those in `kernels/`, and an author's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from juju._resources import resource_dir
from juju.build import Progress, default_store, precompile
from juju.build.packages import include_folders
from juju.errors import ArgumentError
from juju.plan import CustomCall, Plan

NO_KERNELS = (
    "{name}: there is no kernel package {path}. Give a .mojo file, a folder with an __init__.mojo, or a .mojoc file."
)
BAD_NAME = "{name}: the kernel package {path} needs a name that is a Mojo identifier."

_REGISTERS = re.compile(r"^\s*@(?:extensibility\.)?register\s*\(", re.MULTILINE)
_IMPORT = re.compile(rb"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INTERNAL = "juju_"


def shipped() -> list[str]:
    """The packages in `kernels/` that register custom ops for everybody; `juju_*` are the compiler's own."""
    folders = sorted(path.parent for path in resource_dir("kernels").glob("*/__init__.mojo"))
    return [
        folder.name
        for folder in folders
        if not folder.name.startswith(_INTERNAL)
        and any(_REGISTERS.search(text.decode()) for text in _sources(folder).values())
    ]


def generated(
    name: str, files: Mapping[str, str], imports: Iterable[str], progress: Progress | None = None
) -> list[Path]:
    """The `.mojoc` of generated sources, and those of the packages it imports."""
    return _compiled(name, {file: text.encode() for file, text in files.items()}, sorted(imports), progress=progress)


def of_primitives(plan: Plan, progress: Progress | None = None) -> list[Path]:
    """The `.mojoc` files that the primitives of `plan` may use: all of `kernels/`, and what each names itself.

    Raises `ArgumentError` if an author's package is not there, and `KernelCompileError` if Mojo refuses it.
    """
    primitives = dict.fromkeys(step.primitive for step in plan.steps if isinstance(step, CustomCall))
    if not primitives:
        return []
    found = dict.fromkeys(_helpers(shipped(), progress))
    for primitive in primitives:
        for path in primitive.kernels:
            found.update(dict.fromkeys(authored(path, primitive.name, progress)))
    return list(found)


def authored(path: Path, name: str, progress: Progress | None = None) -> list[Path]:
    """The compiled package of an author's `path`, and the packages of `kernels/` it imports; `name` says who asked."""
    if path.is_file() and path.suffix in (".mojoc", ".mojopkg"):
        return [path]
    if path.is_file() and path.suffix == ".mojo":
        sources = {"__init__.mojo": path.read_bytes()}
    elif (path / "__init__.mojo").is_file():
        sources = _sources(path)
    else:
        raise ArgumentError(NO_KERNELS.format(name=name, path=path))
    if not _IDENTIFIER.fullmatch(path.stem):
        raise ArgumentError(BAD_NAME.format(name=name, path=path))
    shown = {file: str(path / file if path.is_dir() else path) for file in sources}
    return _compiled(path.stem, sources, _imports(sources), shown=shown, progress=progress)


def _compiled(
    name: str,
    sources: Mapping[str, bytes],
    imports: Sequence[str],
    *,
    shown: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    compiled = precompile(name, sources, imports=imports, shown=shown, progress=progress)
    return [compiled, *_helpers(imports, progress)]


def _helpers(names: Sequence[str], progress: Progress | None) -> list[Path]:
    """The `.mojoc` files of packages in `kernels/`, and of all that these import."""
    folders = include_folders(names, store=default_store(), progress=progress)
    return [path for folder in folders for path in folder.glob("*.mojoc")]


def _imports(sources: Mapping[str, bytes]) -> list[str]:
    """Which packages of `kernels/` the sources import."""
    words = {word.decode() for text in sources.values() for word in _IMPORT.findall(text)}
    return sorted(word for word in words if (resource_dir("kernels") / word / "__init__.mojo").is_file())


def _sources(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.mojo"))}

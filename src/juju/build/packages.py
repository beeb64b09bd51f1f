"""Helper packages of Mojo code that kernels import, and the keys that depend on them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from juju._resources import resource_dir
from juju.build import diagnostics
from juju.build.process import FLAGS, run_mojo
from juju.build.progress import Progress, report, step
from juju.build.shelf import PACKAGES, Shelf
from juju.build.store import Store, default_store, put_file
from juju.build.toolchain import toolchain
from juju.errors import InternalError, KernelCompileError
from juju.plan import ABI_VERSION

BAD_NAME = "{name!r} cannot be the name of a Mojo package"
NO_PACKAGE = "there is no Mojo package {name!r} in {folder}"

_IMPORT = re.compile(rb"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class _Package:
    digest: str
    imports: tuple[str, ...]


_packages: dict[tuple[object, ...], _Package] = {}


def kernel_key(canonical_text: str, imports: Sequence[str]) -> str:
    """The key of a kernel: a digest of everything that decides its machine code.

    `canonical_text` is its Mojo text without names and comments. Raises `ToolchainError` if there is no toolchain.
    """
    helpers = [f"{name}={package_digest(name)}" for name in sorted(set(imports))]
    return _digest("kernel", str(ABI_VERSION), toolchain().mojo_version, *FLAGS, canonical_text, *helpers)


def package_digest(name: str) -> str:
    """A digest of the sources of the package `kernels/<name>` and of the packages it imports."""
    package = _inspect(name)
    return _digest("package", package.digest, *(f"{helper}={package_digest(helper)}" for helper in package.imports))


def helper_package(name: str, *, store: Store | None = None, progress: Progress | None = None) -> Path:
    """The folder to pass to Mojo as `-I` so that `import <name>` finds the package `kernels/<name>`, precompiled.

        folder = helper_package("juju_math")        # <store>/p/<digest>, holds juju_math.mojoc

    The folder depends only on the content, so MAX's own cache stays valid. The package is precompiled at first use.
    Raises `KernelCompileError` if the compiler refuses it.
    """
    folder, imports = _package_folder(name), _inspect(name).imports
    sources = _sources(folder)
    shown = {file: str(folder / file) for file in sources}
    return precompile(name, sources, imports=imports, shown=shown, store=store, progress=progress).parent


def include_folders(imports: Sequence[str], *, store: Store, progress: Progress | None = None) -> list[Path]:
    """The `-I` folders of the packages `imports` and of what these import."""
    names: list[str] = []
    pending = list(imports)
    while pending:
        name = pending.pop(0)
        if name not in names:
            names.append(name)
            pending += _inspect(name).imports
    return [helper_package(name, store=store, progress=progress) for name in names]


def precompile(
    name: str,
    sources: Mapping[str, bytes],
    *,
    imports: Sequence[str] = (),
    shown: Mapping[str, str] | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> Path:
    """Precompiles a Mojo package from its sources (relative path to text) into `<store>/p/<digest>/<name>.mojoc`.

        path = precompile("mandelbrot", {"__init__.mojo": text})

    `shown` gives the names to show for the files in an error. Raises `KernelCompileError` if the compiler refuses it.
    """
    if not _NAME.fullmatch(name):
        raise InternalError(BAD_NAME.format(name=name))
    store = store or default_store()
    helpers = [f"{helper}={package_digest(helper)}" for helper in sorted(set(imports))]
    digest = _digest("mojoc", toolchain().mojo_version, _sources_digest(name, sources), *helpers)
    file = f"{name}.mojoc"
    if found := store.find_file(PACKAGES, digest, file):
        report(progress, "package", name, "hit")
        return found
    folders = include_folders(imports, store=store, progress=progress)

    def build(shelf: Shelf) -> Path:
        shelf.sweep()
        with shelf.lock(digest):
            if found := store.find_file(PACKAGES, digest, file):
                report(progress, "package", name, "hit")
                return found
            with step(progress, "package", name), shelf.workdir() as work:
                compiled = _precompile(work, name, sources, folders, dict(shown or {}))
                return put_file(shelf, PACKAGES, digest, file, compiled)

    return store.writing(build)


def _precompile(
    work: Path, name: str, sources: Mapping[str, bytes], folders: Sequence[Path], shown: dict[str, str]
) -> bytes:
    root = work / name
    places = {}
    for file, text in sources.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        places[os.path.realpath(path)] = shown.get(file, f"{name}/{file}")
    output = work / f"{name}.mojoc"
    words = ["precompile", "--diagnostic-format", "json", "--disable-warnings"]
    words += [word for folder in folders for word in ("-I", str(folder))]
    # The paths as given get into the package; relative ones keep it the same bytes wherever it is compiled.
    outcome = run_mojo([*words, name, "-o", output.name], work)
    if not outcome.ok:
        groups = diagnostics.errors(outcome.output, work)
        raise KernelCompileError(diagnostics.package_refusal(name, groups, places, outcome.output))
    return output.read_bytes()


def _package_folder(name: str) -> Path:
    folder = resource_dir("kernels") / name
    if not _NAME.fullmatch(name) or not (folder / "__init__.mojo").is_file():
        raise InternalError(NO_PACKAGE.format(name=name, folder=folder.parent))
    return folder


def _mojo_files(folder: str, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Relative path, time and size of each file; this runs for every key, so it is one pass over the folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".mojo") and entry.is_file():
                status = entry.stat()
                yield prefix + entry.name, status.st_mtime_ns, status.st_size
            elif entry.is_dir():
                yield from _mojo_files(entry.path, f"{prefix}{entry.name}/")


def _sources(folder: Path) -> dict[str, bytes]:
    return {file: (folder / file).read_bytes() for file, _, _ in sorted(_mojo_files(str(folder)))}


def _inspect(name: str) -> _Package:
    """Digest and imports of a package; its files are read again only if one of them has changed."""
    folder = _package_folder(name)
    identity = (str(folder), *sorted(_mojo_files(str(folder))))
    if identity not in _packages:
        sources = _sources(folder)
        imported = {match.decode() for text in sources.values() for match in _IMPORT.findall(text)}
        helpers = [other for other in imported - {name} if (folder.parent / other / "__init__.mojo").is_file()]
        _packages[identity] = _Package(_sources_digest(name, sources), tuple(sorted(helpers)))
    return _packages[identity]


def _sources_digest(name: str, sources: Mapping[str, bytes]) -> str:
    files = [part for file in sorted(sources) for part in (file, hashlib.sha256(sources[file]).hexdigest())]
    return _digest("sources", name, *files)


def _digest(*fields: str) -> str:
    """The SHA-256 of the fields, each with its length so that no two lists look alike."""
    total = hashlib.sha256()
    for field in fields:
        data = field.encode()
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()

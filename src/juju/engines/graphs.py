"""MAX graphs, compiled once and kept in the store; many in one compile, which takes 13 seconds for any number."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from max.driver import CPU
from max.engine import InferenceSession, Model, read
from max.graph import Graph, KernelLibrary, Module

from juju.build import Progress, Store, default_store
from juju.build.progress import step
from juju.engines._maxcompat import mlir_context
from juju.engines.trampoline import check_fork, process
from juju.errors import KernelCompileError

GRAPH_FAILED = (
    "MAX could not compile the graph of {name}: {reason}\n"
    "If that does not say enough, MAX has printed more to stderr. The kernels the graph calls are in: {packages}"
)
BAD_PACKAGES = (
    "MAX cannot use the kernel packages {packages} together: {reason}\n"
    "Two of them may register an op of the same name; MAX has printed more to stderr."
)

_KIND, _REFERENCE, _MODULE = "g", "graph.json", "module.mef"
_POLL_SECONDS = 0.02

_building = threading.RLock()
_compiling = threading.Lock()


@dataclass(frozen=True)
class Place:
    """Where a compiled graph is: a `.mef` file, and its name in there."""

    path: Path
    name: str


@dataclass(frozen=True)
class Draft:
    """A graph to be compiled: `build(graph name, module)` adds it to a module, `extensions` are packages it needs."""

    name: str
    build: Callable[[str, Module], Graph]
    extensions: tuple[Path, ...]


@contextmanager
def building() -> Iterator[None]:
    """Held while a graph is put together: MLIR's objects are not made for several threads."""
    with _building, mlir_context():
        yield


def find(key: str, store: Store | None = None) -> Place | None:
    """The compiled graph `key`, or None if it is not in the store, or no longer whole."""
    store = store or default_store()
    reference = store.find_file(_KIND, key, _REFERENCE)
    if reference is None:
        return None
    kept = json.loads(reference.read_bytes())
    path = store.find_file(_KIND, kept["module"], _MODULE)
    return None if path is None else Place(path, kept["name"])


def compile_drafts(drafts: Mapping[str, Draft], progress: Progress | None = None) -> dict[str, Place]:
    """Compiles the graphs (key to draft) in one module, and keeps them; what another process keeps first is taken over.

    Raises `KernelCompileError` if MAX refuses them; which of several is at fault is not said.
    """
    store = default_store()
    with ExitStack() as stack:
        works = [stack.enter_context(store.lock(key)) for key in sorted(drafts)]
        places = {key: place for key in drafts if (place := find(key, store)) is not None}
        missing = {key: draft for key, draft in drafts.items() if key not in places}
        if missing:
            places.update(_compile(missing, works[0], store, progress))
    return places


def load(place: Place) -> Model:
    """The graph, ready to run; a graph that was loaded before in this process is the same object."""
    return _load_module(place.path)[place.name]


@cache
def session() -> InferenceSession:
    """The session of this process. Its device must live as long: without one, MAX starts its threads at every call."""
    check_fork()
    process.started = True
    return InferenceSession(devices=[CPU()])


def library(extensions: Sequence[Path]) -> KernelLibrary:
    """What the graph builder knows of the ops in `extensions`; reading them takes about a second, once.

    Raises `KernelCompileError` if two of them register the same name.
    """
    return _library(tuple(extensions))


class Unchecked(KernelLibrary):
    """Knows no ops and believes every call of one: for a graph that is only looked at, at no cost."""

    def verify_custom_op(self, custom_op: object) -> None:
        pass


@lru_cache(maxsize=64)
def _library(extensions: tuple[Path, ...]) -> KernelLibrary:
    read = KernelLibrary(list(extensions))
    try:
        list(read)  # now, and not when the first op looks for its kernel
    except ValueError as error:
        raise KernelCompileError(BAD_PACKAGES.format(packages=_names(extensions), reason=error)) from error
    return read


@lru_cache(maxsize=256)
def _load_module(path: Path) -> dict[str, Model]:
    # `read` and not `session.compile(path)`, which leaks two threads a call.
    return session().init_all(read(path))


def _compile(drafts: Mapping[str, Draft], work: Path, store: Store, progress: Progress | None) -> dict[str, Place]:
    extensions = list(dict.fromkeys(path for draft in drafts.values() for path in draft.extensions))
    names = {key: f"{draft.name}_{key[:16]}" if len(drafts) > 1 else draft.name for key, draft in drafts.items()}
    with building():
        module = Module()
        for key, draft in drafts.items():
            draft.build(names[key], module)
    output = work / _MODULE
    title = ", ".join(dict.fromkeys(draft.name for draft in drafts.values()))
    try:
        with step(progress, "graph", title):
            _compile_module(module, extensions, output)
    except RuntimeError as error:
        text = GRAPH_FAILED.format(
            name=title,
            reason=_reason(error),
            packages=_names(extensions),
        )
        raise KernelCompileError(text) from error
    data = output.read_bytes()
    whole = hashlib.sha256(data).hexdigest()
    path = store.add_file(_KIND, whole, _MODULE, data)
    for key, name in names.items():
        kept = {"module": whole, "name": name}
        store.add_file(_KIND, key, _REFERENCE, json.dumps(kept).encode())
    return {key: Place(path, name) for key, name in names.items()}


def _compile_module(module: Module, extensions: Sequence[Path], output: Path) -> None:
    # MAX compiles one module at a time and waits for its turn where Ctrl-C does not reach, unlike at this lock.
    with _compiling:
        with building():
            pending = session().compile_async(module, custom_extensions=list(extensions))
        # `compile` and `wait` cannot be interrupted either.
        while not pending._compiled.done():  # pyright: ignore[reportAttributeAccessIssue]
            time.sleep(_POLL_SECONDS)
        pending.export_mef(output)


def _names(extensions: Sequence[Path]) -> str:
    return ", ".join(path.stem for path in extensions) or "none"


def _reason(error: BaseException | None) -> str:
    """The messages of an error and its causes, each once."""
    parts: list[str] = []
    while error is not None:
        message = str(error).strip()
        if message and not any(message in part for part in parts):
            parts.append(message)
        error = error.__cause__
    return "\n".join(parts)

"""The content-addressed store of compiled kernels, packages, graphs and plans."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from juju.build.shelf import FACTS, GRAPHS, KERNELS, KINDS, PACKAGES, PLANS, Shelf, folders
from juju.build.toolchain import runtime_library, toolchain
from juju.errors import InternalError, StoreError, StoreWarning

UNUSABLE = (
    "juju cannot write to its store {root} ({reason}). It works without: what it compiles now is kept in a temporary "
    "directory of this process and compiled again in the next one. Free some space, or set JUJU_CACHE_DIR to a "
    "directory you can write to."
)
NOWHERE = (
    "juju can keep compiled kernels neither in its store nor in the temporary directory {root} ({reason}). "
    "Free some space, or set JUJU_CACHE_DIR to a directory you can write to."
)
UNLOADABLE = (
    "juju cannot load the compiled kernel {path} ({reason}). If its disk is mounted 'noexec', set JUJU_CACHE_DIR to a "
    "directory on another; otherwise run 'juju cache clear'."
)
BAD_NAME = "{what} {name!r} is not fit to name a file of the store"

_DIGEST = re.compile(r"[0-9a-f]{16,128}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,250}")
_FINGERPRINT = re.compile(r"\d[A-Za-z0-9._+]*-\d[A-Za-z0-9._+]*-[A-Za-z0-9._+-]+")

_LOAD_MODE = os.RTLD_LOCAL | os.RTLD_NOW

_Result = TypeVar("_Result")

_loading = threading.Lock()
_libraries: dict[Path, ctypes.CDLL] = {}
_addresses: dict[tuple[Path, str], int] = {}


@dataclass(frozen=True)
class Built:
    """A compiled kernel: the shared library that holds it, and its entry point there."""

    path: Path
    symbol: str
    key: str

    def address(self) -> int:
        """The address of the entry point in this process. Raises `StoreError` if the library cannot be loaded."""
        found = _addresses.get((self.path, self.symbol))
        if found is not None:
            return found
        with _loading:
            try:
                if self.path not in _libraries:
                    _libraries[self.path] = _load(self.path)
                address = ctypes.cast(getattr(_libraries[self.path], self.symbol), ctypes.c_void_p).value
            except (OSError, AttributeError) as error:
                raise StoreError(UNLOADABLE.format(path=self.path, reason=error)) from error
            if address is None:
                raise StoreError(UNLOADABLE.format(path=self.path, reason=f"{self.symbol} is null"))
            _addresses[self.path, self.symbol] = address
            return address


@dataclass(frozen=True)
class StoreEntry:
    """One thing in the store. `bytes` of a kernel counts its share of a library that holds several."""

    kind: Literal["kernel", "package", "graph", "plan"]
    key: str
    name: str
    bytes: int
    path: Path
    created: float


@dataclass(frozen=True)
class StoreStats:
    """What the store holds for the current toolchain; `other_bytes` are measurements, and other versions' files."""

    root: Path
    fingerprint: str
    kernels: int
    kernel_bytes: int
    plans: int
    plan_bytes: int
    graphs: int
    graph_bytes: int
    packages: int
    package_bytes: int
    other_bytes: int

    @property
    def bytes(self) -> int:
        return self.kernel_bytes + self.plan_bytes + self.graph_bytes + self.package_bytes + self.other_bytes


class Store:
    """Everything juju has compiled on this machine, by content; safe for many processes and threads.

        store = default_store()
        store.find(kernel.key)      # Built, or None

    Methods raise `StoreError` if the directory, or a file in it, belongs to another user or is writable by others.
    If it cannot be written, the first attempt gives a `StoreWarning`, and what is written from then on goes to a
    temporary directory that is removed when the process ends.
    """

    def __init__(self, root: str | os.PathLike[str], fingerprint: str | None = None) -> None:
        self.root = Path(os.path.abspath(os.path.expanduser(root)))
        self._fingerprint = fingerprint
        self._private: Shelf | None = None
        self._diverting = threading.Lock()
        self._verified: dict[tuple[Path, int, int, int], str] = {}

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    @property
    def fingerprint(self) -> str:
        """The folder of the current toolchain; raises `ToolchainError` if there is none."""
        return self._fingerprint or toolchain().fingerprint

    @cached_property
    def _main(self) -> Shelf:
        return Shelf(self.root, self.fingerprint)

    @property
    def _shelves(self) -> tuple[Shelf, ...]:
        return (self._main,) if self._private is None else (self._private, self._main)

    def find(self, key: str) -> Built | None:
        """The compiled kernel `key`, or None; an entry that is damaged is dropped."""
        _require(_DIGEST, key, "the key")
        for shelf in self._shelves:
            index = _read_index(shelf, KERNELS, f"{key}.json")
            if index is None:
                continue
            if path := self._verify(shelf, index, KERNELS):
                return Built(path, index["symbol"], key)
            shelf.remove(KERNELS, f"{key}.json")
        return None

    def find_file(self, kind: str, key: str, name: str) -> Path | None:
        """A package or graph that `write` put there, or None; one that is damaged is dropped."""
        folder = _folder(kind, key)
        for shelf in self._shelves:
            index = _read_index(shelf, *folder, f"{name}.json")
            if index is not None and index["file"] == name and (path := self._verify(shelf, index, *folder)):
                return path
        return None

    def read_plan(self, digest: str) -> str | None:
        """The plan that was written for `digest`, or None; one that is damaged is dropped."""
        return self._read_text(PLANS, digest)

    def write_plan(self, digest: str, text: str) -> None:
        """Keeps the plan `text` for `read_plan`."""
        self._write_text(PLANS, digest, text)

    def read_facts(self, digest: str) -> str | None:
        """What was measured on this machine and written for `digest`, or None."""
        return self._read_text(FACTS, digest)

    def write_facts(self, digest: str, text: str) -> None:
        """Keeps the measurements `text` for `read_facts`."""
        self._write_text(FACTS, digest, text)

    def _read_text(self, kind: str, digest: str) -> str | None:
        _require(_DIGEST, digest, "the digest")
        for shelf in self._shelves:
            raw = shelf.read(kind, f"{digest}.json")
            if raw is None:
                continue
            expected, _, text = raw.partition(b"\n")
            if _sha256(text).encode() == expected:
                return text.decode()
            shelf.remove(kind, f"{digest}.json")
        return None

    def _write_text(self, kind: str, digest: str, text: str) -> None:
        _require(_DIGEST, digest, "the digest")
        data = text.encode()
        self.writing(lambda shelf: shelf.write(_sha256(data).encode() + b"\n" + data, kind, f"{digest}.json"))

    def add_file(self, kind: str, key: str, name: str, data: bytes) -> Path:
        """Keeps a package or graph for `find_file`; its path depends on `kind`, `key` and `name` only."""
        return self.writing(lambda shelf: put_file(shelf, kind, key, name, data))

    @contextmanager
    def lock(self, name: str) -> Iterator[Path]:
        """Keeps out other threads and processes that build the same thing; yields a directory to work in.

        with store.lock(key) as work:
            if (path := store.find_file("g", key, "trampoline.mef")) is None:
                ...                                         # write work / "trampoline.mef"
                path = store.add_file("g", key, "trampoline.mef", data)
        """
        _require(_DIGEST, name, "the lock")
        shelf = self.writing(_probe)
        with shelf.lock(name), shelf.workdir() as work:
            yield work

    def writing(self, action: Callable[[Shelf], _Result]) -> _Result:
        """Runs `action` on the directory that can be written; a second time, on the temporary one, if that fails."""
        while True:
            shelf = self._private or self._main
            try:
                return action(shelf)
            except OSError as error:
                self._divert(shelf, error)

    def entries(self) -> Iterator[StoreEntry]:
        """Everything the store holds for the current toolchain, the newest first."""
        found = [entry for shelf in self._shelves for entry in _entries(shelf)]
        yield from sorted(found, key=lambda entry: entry.created, reverse=True)

    def stats(self) -> StoreStats:
        """How much the store holds."""
        count = dict.fromkeys(KINDS, 0)
        size = dict.fromkeys(KINDS, 0)
        for shelf in self._shelves:
            for kind in KINDS:
                size[kind] += sum(status.st_size for _, status in _walk(shelf, kind))
        kinds = {"kernel": KERNELS, "package": PACKAGES, "graph": GRAPHS, "plan": PLANS}
        for entry in self.entries():
            count[kinds[entry.kind]] += 1
        others = (Shelf(self.root, name) for name in self._fingerprints() if name != self.fingerprint)
        return StoreStats(
            root=self.root,
            fingerprint=self.fingerprint,
            kernels=count[KERNELS],
            kernel_bytes=size[KERNELS],
            plans=count[PLANS],
            plan_bytes=size[PLANS],
            graphs=count[GRAPHS],
            graph_bytes=size[GRAPHS],
            packages=count[PACKAGES],
            package_bytes=size[PACKAGES],
            other_bytes=size[FACTS] + sum(shelf.size() for shelf in others),
        )

    def clear(self) -> int:
        """Removes what juju keeps here, for every toolchain, and nothing else; returns how many bytes that freed."""
        self._verified.clear()
        private = self._private
        freed = private.clear() if private is not None else 0
        return freed + sum(Shelf(self.root, name).clear() for name in self._fingerprints())

    def _fingerprints(self) -> list[str]:
        return [name for name in folders(self.root) if _FINGERPRINT.fullmatch(name) or name == self._fingerprint]

    def _verify(self, shelf: Shelf, index: dict[str, str], *folder: str) -> Path | None:
        """The path of the file an index entry speaks of, if its content is what was written."""
        name = index["file"]
        status = shelf.status(*folder, name)
        if status is None:
            return None
        path = shelf.path(*folder, name)
        identity = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._verified.get(identity) == index["sha256"]:
            return path
        data = shelf.read(*folder, name)
        if data is None or _sha256(data) != index["sha256"]:
            shelf.remove(*folder, name, only=status)
            return None
        self._verified[identity] = index["sha256"]
        return path

    def _divert(self, shelf: Shelf, error: OSError) -> None:
        reason = error.strerror or str(error)
        with self._diverting:
            if self._private is not None:
                if shelf is not self._private:
                    return  # another thread has diverted meanwhile
                raise StoreError(NOWHERE.format(root=self._private.root, reason=reason)) from error
            try:
                self._private = Shelf(_temporary_root(), self.fingerprint)
            except OSError as second:
                raise StoreError(NOWHERE.format(root=tempfile.gettempdir(), reason=second.strerror)) from second
        warnings.warn(UNUSABLE.format(root=self.root, reason=reason), StoreWarning, stacklevel=4)


def _load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path), mode=_LOAD_MODE)
    except OSError:
        # It was linked with the run-time library of an environment that is gone; ours has the same name and version.
        runtime = runtime_library()
        if runtime is None or not path.is_file():
            raise
        _libraries.setdefault(runtime, ctypes.CDLL(str(runtime), mode=_LOAD_MODE))
        return ctypes.CDLL(str(path), mode=_LOAD_MODE)


_stores: dict[Path, Store] = {}


def default_store() -> Store:
    """The store of this user: `$JUJU_CACHE_DIR`, or the platform's directory for caches."""
    root = os.environ.get("JUJU_CACHE_DIR")
    if not root:
        import platformdirs

        root = platformdirs.user_cache_dir("juju")
    store = Store(root)
    return _stores.setdefault(store.root, store)


def put_file(shelf: Shelf, kind: str, key: str, name: str, data: bytes) -> Path:
    """Writes a package or graph, then the index entry that makes it valid."""
    folder = _folder(kind, key)
    path = shelf.write(data, *folder, name)
    index = {"file": name, "sha256": _sha256(data), "created": time.time()}
    shelf.write(json.dumps(index).encode(), *folder, f"{name}.json")
    return path


def put_library(shelf: Shelf, library: bytes, kernels: dict[str, tuple[str, str, str]]) -> dict[str, Built]:
    """Writes a library and the kernels in it, key to (name, symbol, text); the index entries come last."""
    digest = _sha256(library)
    path = shelf.write(library, KERNELS, f"{digest}.so")
    for key, (_, _, text) in kernels.items():
        put_text(shelf, key, text)
    for key, (name, symbol, text) in kernels.items():
        index = {
            "name": name,
            "file": f"{digest}.so",
            "symbol": symbol,
            "sha256": digest,
            "share": len(library) // len(kernels) + len(text.encode()),
            "text": f"{key}.mojo",
            "created": time.time(),
        }
        shelf.write(json.dumps(index).encode(), KERNELS, f"{key}.json")
    return {key: Built(path, symbol, key) for key, (_, symbol, _) in kernels.items()}


def put_text(shelf: Shelf, key: str, text: str) -> Path:
    """Keeps the Mojo text of a kernel for people to read."""
    return shelf.write(text.encode(), KERNELS, f"{key}.mojo")


def require_names(key: str, symbol: str) -> None:
    """Raises `InternalError` unless both may stand in a path and in generated text."""
    _require(_DIGEST, key, "the key")
    _require(_IDENTIFIER, symbol, "the symbol")


def _require(pattern: re.Pattern[str], name: str, what: str) -> None:
    if not pattern.fullmatch(name):
        raise InternalError(BAD_NAME.format(what=what, name=name))


def _folder(kind: str, key: str) -> tuple[str, ...]:
    _require(_DIGEST, key, "the key")
    return (kind, key)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _probe(shelf: Shelf) -> Shelf:
    shelf.sweep()
    with shelf.workdir():
        return shelf


def _read_index(shelf: Shelf, *parts: str) -> dict[str, str] | None:
    raw = shelf.read(*parts)
    if raw is None:
        return None
    try:
        index = json.loads(raw)
        if re.fullmatch(r"[0-9A-Za-z_][0-9A-Za-z_.-]*", index["file"]) and _DIGEST.fullmatch(index["sha256"]):
            return index
    except (ValueError, KeyError, TypeError):
        pass
    shelf.remove(*parts)
    return None


def _entries(shelf: Shelf) -> Iterator[StoreEntry]:
    for parts, status in _walk(shelf, KERNELS):
        if parts[-1].endswith(".json") and (index := _read_index(shelf, *parts)):
            yield StoreEntry(
                "kernel",
                parts[-1].removesuffix(".json"),
                str(index.get("name", "")),
                int(index.get("share", 0)) + status.st_size,
                shelf.path(KERNELS, index["file"]),
                status.st_mtime,
            )
    labels: tuple[tuple[str, Literal["package", "graph"]], ...] = ((PACKAGES, "package"), (GRAPHS, "graph"))
    for kind, label in labels:
        for parts, status in _walk(shelf, kind):
            if not parts[-1].endswith(".json"):
                yield StoreEntry(label, parts[-2], parts[-1], status.st_size, shelf.path(*parts), status.st_mtime)
    for parts, status in _walk(shelf, PLANS):
        key = parts[-1].removesuffix(".json")
        yield StoreEntry("plan", key, "", status.st_size, shelf.path(*parts), status.st_mtime)


def _walk(shelf: Shelf, *parts: str) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    for name in shelf.names(*parts):
        try:
            status = os.lstat(shelf.path(*parts, name))
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(shelf, *parts, name)
        else:
            yield (*parts, name), status


def _temporary_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="juju-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child leaves it to its parent
            shutil.rmtree(root, ignore_errors=True)

    atexit.register(remove)
    return root

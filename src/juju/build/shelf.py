"""One directory tree on disk that only its owner may write: reading, writing, locking, and cleaning up."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from juju.build import locks
from juju.errors import StoreError

FOREIGN = (
    "juju does not use {path}: it belongs to user {owner} and not to you (user {user}), who could put any code there. "
    "Remove it, or set JUJU_CACHE_DIR to a directory of your own."
)
SHARED = (
    "juju does not use {path}: others may write to it (mode {mode}), and could put any code there. "
    "Run 'chmod go-w' on it after checking what it holds, remove it, or set JUJU_CACHE_DIR to another directory."
)
LINKED = (
    "juju does not use {path}: it is not a plain {kind}, and what it points to cannot be trusted. "
    "Remove it, or set JUJU_CACHE_DIR to another directory."
)

KERNELS, PACKAGES, GRAPHS, PLANS, FACTS = "k", "p", "g", "j", "f"
KINDS: tuple[str, ...] = (KERNELS, PACKAGES, GRAPHS, PLANS, FACTS)
_TEMPORARY, _LOCKS = "t", "l"

STALE_SECONDS = 3600.0


class Shelf:
    """The files of one toolchain: `<root>/<fingerprint>/<kind>/<name>`, with `t/` and `l/` for running builds.

    Everything is created for its owner only. Whatever is found to belong to another user, to be writable by others or
    to be a link raises `StoreError`. A file is written under `t/` and renamed, so that it is either whole or absent.
    What cannot be written raises `OSError`; what cannot be read counts as absent.
    """

    def __init__(self, root: Path, fingerprint: str) -> None:
        self.root = root
        self.home = root / fingerprint

    def path(self, *parts: str) -> Path:
        return self.home.joinpath(*parts)

    def trusted(self, *parts: str) -> bool:
        """Whether the directory `parts` exists; raises `StoreError` if it, or one above it, is not ours alone."""
        if not _is_private_directory(self.root, may_be_link=True) or not _is_private_directory(self.home):
            return False
        return all(_is_private_directory(self.path(*parts[: i + 1])) for i in range(len(parts)))

    def read(self, *parts: str) -> bytes | None:
        """The content of a file, or None if it cannot be read."""
        if not self.trusted(*parts[:-1]):
            return None
        path = self.path(*parts)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StoreError(LINKED.format(path=path, kind="file")) from None
            return None
        with os.fdopen(descriptor, "rb") as file:
            _require_ours(path, os.fstat(descriptor))
            try:
                return file.read()
            except OSError:
                return None

    def status(self, *parts: str) -> os.stat_result | None:
        """The status of a file, or None if there is none."""
        path = self.path(*parts)
        if not self.trusted(*parts[:-1]):
            return None
        try:
            status = os.lstat(path)
        except OSError:
            return None
        _require_ours(path, status)
        return status

    def write(self, data: bytes, *parts: str) -> Path:
        """Puts a file in place in one step."""
        temporary = self._ready(_TEMPORARY) / f"{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            return self.adopt(temporary, *parts)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def adopt(self, source: Path, *parts: str) -> Path:
        """Moves a finished file of a `workdir` into place in one step."""
        target = self._ready(*parts[:-1]) / parts[-1]
        os.chmod(source, 0o600)
        os.replace(source, target)
        return target

    def remove(self, *parts: str, only: os.stat_result | None = None) -> None:
        """Removes a file if it is there, and still is the one whose status is `only`."""
        path = self.path(*parts)
        try:
            if only is None or os.lstat(path).st_ino == only.st_ino:
                path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            # A damaged file that cannot be removed is found again and again, but never used.
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise

    def names(self, *parts: str) -> list[str]:
        """The names in a directory, sorted; none if there is no such directory."""
        if not self.trusted(*parts):
            return []
        try:
            return sorted(os.listdir(self.path(*parts)))
        except OSError:
            return []

    @contextmanager
    def lock(self, name: str, cancel: threading.Event | None = None) -> Iterator[None]:
        """Keeps out every other thread and process that wants the lock `name`."""
        with locks.hold(self._ready(_LOCKS) / f"{name}.lock", cancel):
            yield

    @contextmanager
    def workdir(self) -> Iterator[Path]:
        """A fresh directory on the same disk, removed at the end of the block.

        It is locked as long as its process lives, so that `sweep` of another process can tell it from a left-over.
        """
        parent = self._ready(_TEMPORARY)
        while (descriptor := locks.try_hold(lock := parent / f"{(name := secrets.token_hex(8))}.lock")) is None:
            pass
        folder = parent / name
        try:
            os.mkdir(folder, 0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            locks.release(descriptor, lock)

    def sweep(self) -> None:
        """Removes work in progress whose process is gone, and temporary files older than an hour."""
        for name in self.names(_TEMPORARY):
            path = self.path(_TEMPORARY, name)
            if name.endswith(".lock"):
                self._sweep_workdir(path)
            elif not os.path.lexists(path.with_name(f"{name}.lock")) and _age(path) > STALE_SECONDS:
                _delete(path)

    def _sweep_workdir(self, lock: Path) -> None:
        try:
            descriptor = locks.try_hold(lock)
        except OSError:
            return  # not ours to clean, or removed meanwhile; the build itself reports a store it cannot write
        if descriptor is not None:
            try:
                _delete(lock.with_suffix(""))
            finally:
                locks.release(descriptor, lock)

    def size(self) -> int:
        """Bytes of all files below `home`."""
        return sum(entry.stat(follow_symlinks=False).st_size for entry in _files(self.home))

    def clear(self) -> int:
        """Removes every file but the locks and work of running builds; returns how many bytes that freed."""
        if not self.trusted():
            return 0
        before = self.size()
        self.sweep()
        for kind in KINDS:
            if self.trusted(kind):
                shutil.rmtree(self.path(kind))
        for name in (_TEMPORARY, _LOCKS):
            _remove_empty(self.path(name))
        _remove_empty(self.home)
        return before - self.size()

    def _ready(self, *parts: str) -> Path:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        for path in (self.root, self.home, *(self.path(*parts[: i + 1]) for i in range(len(parts)))):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                if not _is_private_directory(path, may_be_link=path == self.root):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        return self.path(*parts)


def folders(root: Path) -> list[str]:
    """The names in a root directory; none if there is no such directory."""
    return sorted(os.listdir(root)) if _is_private_directory(root, may_be_link=True) else []


def _is_private_directory(path: Path, *, may_be_link: bool = False) -> bool:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) and may_be_link:
            # The user may keep the store elsewhere; a link that another user made could lead anywhere.
            _require_owner(path, status, allowed=(os.geteuid(), 0))
            status = os.stat(path)
    except OSError:
        return False
    if stat.S_ISLNK(status.st_mode):
        raise StoreError(LINKED.format(path=path, kind="directory"))
    if not stat.S_ISDIR(status.st_mode):
        return False
    _require_owner(path, status)
    _require_mode(path, status)
    return True


def _require_ours(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(LINKED.format(path=path, kind="file"))
    _require_owner(path, status)
    _require_mode(path, status)


def _require_owner(path: Path, status: os.stat_result, allowed: tuple[int, ...] = ()) -> None:
    if status.st_uid not in (allowed or (os.geteuid(),)):
        raise StoreError(FOREIGN.format(path=path, owner=status.st_uid, user=os.geteuid()))


def _require_mode(path: Path, status: os.stat_result) -> None:
    if status.st_mode & 0o022:
        raise StoreError(SHARED.format(path=path, mode=f"{stat.S_IMODE(status.st_mode):04o}"))


def _age(path: Path) -> float:
    try:
        return time.time() - os.lstat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield entry

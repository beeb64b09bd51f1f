"""The store on disk: what is kept, what is refused, and what happens when it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from build_support import left_over, worker_environment

from juju.build import Built, Store, default_store
from juju.build import shelf as shelf_module
from juju.build import store as store_module
from juju.build.shelf import Shelf
from juju.errors import InternalError, StoreError, StoreWarning

FINGERPRINT = "1.2.0-26.7.0-test"
KEY = "ab" * 32
OTHER = "cd" * 32

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / 'it\'s a "cache" $(touch x) ü;'


@pytest.fixture
def store(root: Path) -> Store:
    return Store(root, FINGERPRINT)


def put_kernel(store: Store, key: str = KEY, library: bytes = b"library f\0") -> Built:
    return store.writing(lambda shelf: store_module.put_library(shelf, library, {key: ("f", "f", "text")}))[key]


def test_a_kernel_is_found_again_by_another_store_object(store: Store, root: Path):
    built = put_kernel(store)
    assert Store(root, FINGERPRINT).find(KEY) == built
    assert built.path.read_bytes() == b"library f\0"
    assert (built.path.parent / f"{KEY}.mojo").read_text() == "text"
    assert store.find(OTHER) is None
    assert left_over(root) == []


def test_looking_creates_nothing(store: Store, root: Path):
    assert store.find(KEY) is None
    assert store.read_plan(KEY) is None
    assert store.stats().bytes == 0
    assert list(store.entries()) == []
    assert not root.exists()


def test_everything_is_for_the_owner_only(store: Store, root: Path):
    previous = os.umask(0)
    try:
        put_kernel(store)
        store.write_plan(KEY, "plan")
        store.add_file("g", KEY, "a.mef", b"graph")
    finally:
        os.umask(previous)
    paths = [root, *root.rglob("*")]
    assert len(paths) > 10
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "verified before"])
@pytest.mark.parametrize("damage", [b"", b"library", b"library g\0"], ids=["empty", "truncated", "changed"])
def test_a_damaged_library_is_dropped(store: Store, root: Path, damage: bytes, warm: bool):
    path = put_kernel(store).path
    looking = Store(root, FINGERPRINT)
    if warm:
        assert looking.find(KEY)
    path.write_bytes(damage)
    os.utime(path, ns=(1, 1))
    assert looking.find(KEY) is None
    assert not path.exists()
    assert not (path.parent / f"{KEY}.json").exists()
    assert put_kernel(store).path.read_bytes() == b"library f\0"
    assert looking.find(KEY)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b'{"file": "../../x.so", "sha256": "ab", "symbol": "f"}'])
def test_a_damaged_index_entry_is_dropped(store: Store, damage: bytes):
    index = put_kernel(store).path.parent / f"{KEY}.json"
    index.write_bytes(damage)
    assert store.find(KEY) is None
    assert not index.exists()


def test_plans_are_kept_and_a_truncated_one_is_dropped(store: Store, root: Path):
    text = '{"name":"é\\n"}\nsecond line'
    store.write_plan(KEY, text)
    assert store.read_plan(KEY) == text
    (path,) = root.glob(f"*/j/{KEY}.json")
    path.write_bytes(path.read_bytes()[:-1])
    assert store.read_plan(KEY) is None
    assert not path.exists()
    store.write_plan(KEY, text)
    store.write_plan(KEY, "another")
    assert store.read_plan(KEY) == "another"


def test_files_keep_their_path_and_are_verified(store: Store, root: Path):
    path = store.add_file("g", KEY, "trampoline.mef", b"graph")
    assert path == root / FINGERPRINT / "g" / KEY / "trampoline.mef"
    assert store.find_file("g", KEY, "trampoline.mef") == path
    assert store.find_file("g", OTHER, "trampoline.mef") is None
    path.write_bytes(b"grap")
    assert store.find_file("g", KEY, "trampoline.mef") is None
    assert store.add_file("g", KEY, "trampoline.mef", b"graph") == path


@pytest.mark.parametrize("name", ["", "../x", "AB" * 32, "a/b", "abc", "a" * 64 + "\n", "ü" * 64])
def test_only_digests_name_files(store: Store, root: Path, name: str):
    for use in (store.find, store.read_plan, lambda key: store.write_plan(key, ""), lambda key: put_file(store, key)):
        with pytest.raises(InternalError, match="not fit to name a file"):
            use(name)
    assert not root.exists()


def put_file(store: Store, key: str) -> Path:
    return store.add_file("g", key, "a.mef", b"")


def test_statistics_and_entries(store: Store, root: Path):
    library = b"x" * 1000 + b"f\0g\0"
    kernels = {KEY: ("first", "f", "text of f"), OTHER: ("second", "g", "text of g")}
    store.writing(lambda shelf: store_module.put_library(shelf, library, kernels))
    store.write_plan(KEY, "plan")
    store.add_file("p", KEY, "juju_math.mojoc", b"package")
    store.add_file("g", KEY, "trampoline.mef", b"graph")
    Store(root, "1.1.0-26.6.0-other").write_plan(KEY, "old")
    stats = store.stats()
    assert (stats.kernels, stats.plans, stats.packages, stats.graphs) == (2, 1, 1, 1)
    assert stats.kernel_bytes > 1000
    assert stats.other_bytes > 0
    assert stats.bytes == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    entries = {(entry.kind, entry.key, entry.name) for entry in store.entries()}
    assert entries == {
        ("kernel", KEY, "first"),
        ("kernel", OTHER, "second"),
        ("plan", KEY, ""),
        ("package", KEY, "juju_math.mojoc"),
        ("graph", KEY, "trampoline.mef"),
    }
    kernel_bytes = sum(entry.bytes for entry in store.entries() if entry.kind == "kernel")
    assert kernel_bytes == stats.kernel_bytes


def test_clear_removes_only_what_is_the_stores(store: Store, root: Path):
    root.mkdir(mode=0o700)
    (root / "thesis.tex").write_text("mine")
    (root / "k").mkdir()
    (root / "k" / "mine").write_text("mine")
    assert store.find(KEY) is None
    put_kernel(store)
    Store(root, "1.1.0-26.6.0-other").write_plan(KEY, "old")
    assert store.clear() > 0
    assert sorted(path.name for path in root.rglob("*")) == ["k", "mine", "thesis.tex"]
    assert store.find(KEY) is None
    put_kernel(store)
    assert store.find(KEY)


def test_clear_does_not_follow_links(store: Store, root: Path, tmp_path: Path):
    put_kernel(store)
    treasure = tmp_path / "treasure"
    treasure.mkdir(mode=0o700)
    (treasure / "gold").write_text("gold")
    (root / FINGERPRINT / "g").symlink_to(treasure)
    with pytest.raises(StoreError, match="not a plain directory"):
        store.clear()
    assert (treasure / "gold").exists()


def test_clear_leaves_running_builds_alone(store: Store):
    with store.lock(KEY) as work:
        (work / "half").write_text("half")
        store.clear()
        assert (work / "half").exists()


# ----------------------------------------------------------------------------------------- refused


@as_root
@pytest.mark.parametrize("which", ["root", "fingerprint", "kind", "index", "library"])
def test_what_belongs_to_another_user_is_refused(store: Store, root: Path, which: str):
    path = store_path(store, root, which)
    os.chown(path, 12345, 12345)
    expect_refusal(store, root, path, r"it belongs to user 12345 and not to you \(user 0\)", which)


@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "world"])
@pytest.mark.parametrize("which", ["root", "fingerprint", "kind", "index", "library"])
def test_what_others_may_write_is_refused(store: Store, root: Path, which: str, mode: int):
    path = store_path(store, root, which)
    path.chmod(path.stat().st_mode | mode)
    expect_refusal(store, root, path, r"others may write to it \(mode 0", which)


@pytest.mark.parametrize("which", ["fingerprint", "kind", "index", "library"])
def test_links_inside_are_refused(store: Store, root: Path, which: str, tmp_path: Path):
    path = store_path(store, root, which)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    expect_refusal(store, root, path, "it is not a plain", which)


def test_the_root_may_be_a_link_of_ones_own(tmp_path: Path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("disk")
    store = Store(tmp_path / "link", FINGERPRINT)
    put_kernel(store)
    assert store.find(KEY)
    assert store.clear() > 0


@as_root
def test_the_root_may_not_be_a_link_of_another_user(tmp_path: Path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("disk")
    os.lchown(tmp_path / "link", 12345, 12345)
    with pytest.raises(StoreError, match="belongs to user 12345"):
        put_kernel(Store(tmp_path / "link", FINGERPRINT))
    assert list((tmp_path / "disk").iterdir()) == []


def store_path(store: Store, root: Path, which: str) -> Path:
    built = put_kernel(store)
    return {
        "root": root,
        "fingerprint": root / FINGERPRINT,
        "kind": built.path.parent,
        "index": built.path.parent / f"{KEY}.json",
        "library": built.path,
    }[which]


def expect_refusal(store: Store, root: Path, path: Path, why: str, which: str) -> None:
    with pytest.raises(StoreError, match=why) as refusal:
        Store(root, FINGERPRINT).find(KEY)
    with pytest.raises(StoreError, match=why):
        store.find(KEY)
    assert f"juju does not use {path}" in str(refusal.value)
    assert "JUJU_CACHE_DIR" in str(refusal.value)
    if which in ("root", "fingerprint", "kind"):
        with pytest.raises(StoreError, match=why):
            put_kernel(store)


# -------------------------------------------------------------------------------- cannot be written


def unwritable(tmp_path: Path, how: str) -> Path:
    if how == "below a file":
        (tmp_path / "file").write_text("")
        return tmp_path / "file" / "store"
    if how == "a file":
        (tmp_path / "file").write_text("")
        return tmp_path / "file"
    if how == "in /proc":
        return Path("/proc/juju")
    return tmp_path / ("x" * 300)


@pytest.mark.parametrize("how", ["below a file", "a file", "in /proc", "name too long"])
def test_a_store_that_cannot_be_written_warns_once_and_works(tmp_path: Path, how: str):
    root = unwritable(tmp_path, how)
    store = Store(root, FINGERPRINT)
    assert store.find(KEY) is None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        built = put_kernel(store)
        store.write_plan(KEY, "plan")
        store.add_file("g", KEY, "a.mef", b"graph")
    assert [warning.category for warning in caught] == [StoreWarning]
    assert str(caught[0].message).startswith(f"juju cannot write to its store {root} (")
    assert "JUJU_CACHE_DIR" in str(caught[0].message)
    assert store.find(KEY) == built
    assert store.read_plan(KEY) == "plan"
    assert store.find_file("g", KEY, "a.mef")
    assert store.stats().kernels == 1
    assert store.clear() > 0
    assert store.find(KEY) is None


def test_a_full_disk_warns_once_and_keeps_what_is_there(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch):
    put_kernel(store)
    write = Shelf.write

    def full(shelf: Shelf, data: bytes, *parts: str) -> Path:
        if shelf.root == root:
            raise OSError(28, "No space left on device")
        return write(shelf, data, *parts)

    monkeypatch.setattr(Shelf, "write", full)
    with pytest.warns(StoreWarning, match="No space left on device"):
        put_kernel(store, OTHER, b"more f\0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.write_plan(KEY, "plan")
    assert store.find(KEY)
    assert store.find(OTHER)
    assert store.read_plan(KEY) == "plan"
    monkeypatch.undo()
    assert Store(root, FINGERPRINT).find(OTHER) is None


def test_a_full_disk_leaves_no_half_written_file(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch):
    put_kernel(store)
    before = {path for path in root.rglob("*") if path.is_file()}

    def full(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shelf_module.os, "replace", full)
    with pytest.raises(StoreError, match="neither in its store nor"), pytest.warns(StoreWarning):
        put_kernel(store, OTHER, b"more f\0")
    assert {path for path in root.rglob("*") if path.is_file()} == before


def test_the_temporary_store_is_removed_when_the_process_ends(tmp_path: Path):
    (tmp_path / "file").write_text("")
    script = (
        "import sys, tempfile, pathlib\n"
        "from juju.build import Store\n"
        f"store = Store({str(tmp_path / 'file')!r}, {FINGERPRINT!r})\n"
        f"store.write_plan({KEY!r}, 'plan')\n"
        "print(len(list(pathlib.Path(tempfile.gettempdir()).rglob('*.json'))))\n"
    )
    (tmp_path / "tmp").mkdir()
    environment = {**worker_environment(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "1"
    assert "StoreWarning" in done.stderr
    assert list((tmp_path / "tmp").glob("juju-*")) == []


# -------------------------------------------------------------------------- locks and left-overs


def test_the_lock_keeps_other_threads_out(store: Store, root: Path):
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with store.lock(KEY):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.001)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 40
    assert max(most) == 1
    assert left_over(root) == []


def test_the_lock_keeps_other_processes_out_until_they_die(store: Store, root: Path):
    script = (
        "import sys, time\n"
        "from juju.build import Store\n"
        f"with Store({str(root)!r}, {FINGERPRINT!r}).lock({KEY!r}) as work:\n"
        "    (work / 'half').write_text('half')\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, env=worker_environment(root), stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        got = threading.Event()

        def take() -> None:
            with store.lock(KEY):
                got.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not got.wait(0.3)
        assert len(list(root.rglob("half"))) == 1, "the work of a living process is not swept"
        other.kill()
        assert got.wait(10)
        waiting.join()
    store.write_plan(KEY, "plan")
    with store.lock(OTHER):
        pass
    assert left_over(root) == [], "the work of the dead process is swept"


def test_old_temporary_files_are_swept_and_young_ones_are_not(store: Store, root: Path):
    store.write_plan(KEY, "plan")
    folder = root / FINGERPRINT / "t"
    for name in ("young.tmp", "old.tmp"):
        (folder / name).write_text("half")
    for name in ("young", "old"):
        (folder / name).mkdir()
    for name in ("old", "old.tmp"):
        os.utime(folder / name, (0, time.time() - 3601))
    with store.lock(KEY):
        pass
    assert sorted(path.name for path in folder.iterdir()) == ["young", "young.tmp"]


def test_threads_may_divert_at_the_same_time(tmp_path: Path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file", FINGERPRINT)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            store.write_plan(f"{number:064x}", str(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert [warning.category for warning in caught] == [StoreWarning]
    assert [store.read_plan(f"{number:064x}") for number in range(8)] == [str(number) for number in range(8)]


def test_a_library_that_cannot_be_loaded_is_an_error_of_the_environment(store: Store):
    built = put_kernel(store)
    with pytest.raises(StoreError, match="cannot load the compiled kernel"):
        built.address()


def test_the_default_store_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUJU_CACHE_DIR", str(tmp_path / "a"))
    assert default_store().root == tmp_path / "a"
    assert default_store() is default_store()
    monkeypatch.setenv("JUJU_CACHE_DIR", "~/b")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_store().root == tmp_path / "b"
    monkeypatch.setenv("JUJU_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert default_store().root == tmp_path / "xdg" / "juju"


def test_finding_a_kernel_is_fast(store: Store, root: Path):
    put_kernel(store, library=bytes(60_000) + b"f\0")
    fresh = Store(root, FINGERPRINT)
    fresh.find(KEY)
    times = []
    for _ in range(50):
        fresh._verified.clear()
        began = time.perf_counter()
        assert fresh.find(KEY)
        times.append(time.perf_counter() - began)
    assert min(times) < 1e-3

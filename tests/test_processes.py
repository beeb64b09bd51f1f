"""Several processes and threads on one store: all results right, one build for each kernel, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = textwrap.dedent(
    """
    import json, sys, threading
    import jax, jax.numpy as jnp, numpy as np
    import juju
    from juju.build import compiler_runs

    def same(x):
        return x * 2 + 1

    def make(k):
        def f(x, y):
            return jnp.abs(x) * k - y

        return f

    wrong = []

    def work(n):
        try:
            fs = [(juju.fuse(same), same, 1), (juju.fuse(make(n % 4)), make(n % 4), 2)]
            for size in (1, 5, 1000):
                x = jnp.arange(float(size)) - n
                for fused, f, arity in fs:
                    args = (x, x * 3)[:arity]
                    if not np.array_equal(fused(*args), jax.jit(f)(*args)):
                        wrong.append((n, size, f.__name__))
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(json.dumps({"wrong": wrong, "runs": compiler_runs()}))
    """
)


def start(program: str, cache: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "JUJU_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def finish(process: subprocess.Popen[str]) -> tuple[dict, str]:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1]), err


@pytest.mark.slow
def test_two_processes_of_eight_threads_on_a_cold_store(tmp_path: Path) -> None:
    cache = tmp_path / "a cache 'with' \"quotes\" and ünicode"
    results = [finish(p) for p in [start(PROGRAM, cache) for _ in range(2)]]
    assert [r["wrong"] for r, _ in results] == [[], []]
    # Three packages (kernel, math, runtime), two launchers, `same`, and `make` for four constants.
    total = sum(r["runs"] for r, _ in results)
    assert total <= 3 + 2 + 1 + 4, f"{total} runs of the toolchain: something was built twice"
    left = [p.name for p in cache.rglob("*") if "tmp" in p.name.lower() or p.suffix == ".part"]
    assert not [p for p in cache.rglob("*") if p.is_file() and p.parent.name == "tmp"], left
    assert all(p.stat().st_mode & 0o077 == 0 for p in [cache, *cache.rglob("*")] if p.is_dir())
    warm, err = finish(start(PROGRAM, cache))
    assert warm == {"wrong": [], "runs": 0}
    assert "juju" not in err


def test_a_new_process_starts_no_compiler() -> None:
    """With what the other tests have put into the store: this program is built at most once."""
    program = textwrap.dedent(
        """
        import json, sys, jax.numpy as jnp, juju
        from juju.build import compiler_runs
        f = juju.fuse(lambda x, y: jnp.where(x > 2, x * y, -y))
        f(jnp.arange(8.0), 3.0)
        loaded = {"xdsl": "xdsl" in sys.modules, "max": "max.engine" in sys.modules}
        print(json.dumps({"runs": compiler_runs(), **loaded}))
        """
    )
    cache = Path(os.environ["JUJU_CACHE_DIR"]) if os.environ.get("JUJU_CACHE_DIR") else None
    env = dict(os.environ) if cache is None else {**os.environ, "JUJU_CACHE_DIR": str(cache)}
    outputs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, env=env)
        assert done.returncode == 0, done.stderr
        outputs.append(json.loads(done.stdout.splitlines()[-1]))
        assert not outputs[1:] or done.stderr == "", "a warm process says nothing"
    assert outputs[1] == {"runs": 0, "xdsl": False, "max": False}

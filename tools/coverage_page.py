"""Writes docs/coverage.md: JAX's primitive harnesses that pass, group by group, and the primitives juju compiles.

python tools/coverage_page.py    # `make coverage`; compiles more than a thousand kernels the first time
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax

import juju
from juju.rules import primitives

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "coverage.md"
sys.path.insert(0, str(ROOT / "tests"))

from conformance import harnesses as listed  # noqa: E402
from conformance.running import Runner  # noqa: E402

HEAD = """\
# Coverage

JAX ships a collection of small programs, *harnesses*, that exercise its primitives over dtypes, shapes and parameters.
juju runs them and compares the results with those of `jax.jit`. `make coverage` writes this page; it is of JAX {jax}.

**{passed:,} of {run:,} harnesses pass** in the {groups} groups that juju runs{share}; known gaps are in
`tests/conformance/known_gaps.txt` with their reasons. Harnesses that differ in `enable_xla` only are one program, and
run once. {complex} more harnesses of these groups hold complex numbers, which juju does not compile.
"""

TABLE_HEAD = """
## {title}

| group | harnesses | run | passed | known gaps | complex, left out |
|---|---|---|---|---|---|
"""

NOT_YET = """
## Not yet

Groups that juju does not run, with the number of their harnesses: {groups}.
"""

PRIMITIVES = """
## Primitives

Compiled, {count}: {names}.

Primitives of `jax.lax` that are not compiled yet, {missing_count}: {missing}.

Calls (`jit`, `custom_jvp_call`, `custom_vjp_call`, `remat`) are inlined before that. `juju primitives` shows dtypes,
accuracy and the place of each rule.
"""

INLINED = frozenset(("custom_jvp_call", "custom_vjp_call"))


@dataclass(frozen=True)
class Group:
    """What the harnesses of one group gave."""

    name: str
    harnesses: int
    run: int
    passed: int
    gaps: int
    complex: int


def families() -> dict[str, list[str]]:
    """The lists of groups in `harnesses.py`, by name."""
    return {name: value for name, value in vars(listed).items() if name.isupper() and isinstance(value, list)}


def left_out() -> dict[str, int]:
    """Groups of JAX that are in no list, with the number of their harnesses."""
    from jax._src.internal_test_util import test_harnesses

    ours = {group for groups in families().values() for group in groups}
    names = {h.fullname: h.group_name for h in test_harnesses.all_harnesses if h.filter("cpu")}
    return dict(sorted(Counter(group for group in names.values() if group not in ours).items()))


def counts(name: str) -> tuple[int, int, int]:
    """Real harnesses, known gaps, and complex harnesses of a group."""
    found = list(listed.harnesses([name]))
    real = [h.fullname for h in found if not listed.is_complex(h)]
    return len(real), sum(name in listed.known_gaps() for name in real), len(found) - len(real)


def run(groups: list[str], share: int) -> Iterator[Group]:
    """Runs harnesses of some groups. Raises `AssertionError` if one fails that is no known gap."""
    runner = Runner(listed.sample(listed.real(groups), share))
    gaps = listed.known_gaps()
    passed: Counter[str] = Counter()
    number = Counter(harness.group_name for harness in runner.harnesses.values())
    for name, harness in runner.harnesses.items():
        if name in gaps:
            continue
        try:
            runner.check(name)
        except (juju.JujuError, AssertionError) as error:
            raise AssertionError(f"{name} is no known gap: {error}") from error
        passed[harness.group_name] += 1
    for name in groups:
        real, known, complex_ = counts(name)
        yield Group(name, real, number[name], passed[name], known, complex_)


def missing() -> list[str]:
    """Public primitives of `jax.lax` without a rule."""
    known = {row.primitive for row in primitives()} | INLINED
    public = {getattr(jax.lax, name).name for name in dir(jax.lax) if name.endswith("_p")}
    return sorted(public - known)


def page(results: Mapping[str, list[Group]], share: int) -> str:
    """The text of the page."""
    groups = [group for family in results.values() for group in family]
    parts = [
        HEAD.format(
            jax=jax.__version__,
            passed=sum(g.passed for g in groups),
            run=sum(g.run for g in groups),
            share=f", one in {share} of each" if share > 1 else "",
            groups=len(groups),
            complex=sum(g.complex for g in groups),
        )
    ]
    for family, members in results.items():
        parts.append(TABLE_HEAD.format(title=family.capitalize()))
        parts += [f"| `{g.name}` | {g.harnesses} | {g.run} | {g.passed} | {g.gaps} | {g.complex} |\n" for g in members]
    parts.append(NOT_YET.format(groups=", ".join(f"`{name}` {count}" for name, count in left_out().items())))
    compiled = sorted(row.primitive for row in primitives())
    parts.append(
        PRIMITIVES.format(
            count=len(compiled), names=_names(compiled), missing_count=len(missing()), missing=_names(missing())
        )
    )
    return "".join(parts)


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=int, default=1, metavar="N", help="run one of N harnesses")
    share = parser.parse_args().share
    results = {}
    for family, groups in families().items():
        results[family] = list(run(groups, share))
        print(f"{family.lower()}: {sum(g.passed for g in results[family])} harnesses pass", flush=True)
    PAGE.write_text(page(results, share))


if __name__ == "__main__":
    main()

"""Any sequence of catalog operations has the same result as on a plain list of versions."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InstallError, WasmrtError

ADD = st.tuples(st.just("add"), st.integers(0, 3), st.sampled_from(["{}", '{"http": {}}', None]))
BACK = st.tuples(st.just("rollback"), st.sampled_from([None, 1, 2, 3]), st.none())
STEPS = st.lists(
    st.one_of(ADD, ADD, BACK, st.sampled_from([("grant", None, None), ("remove", None, None)])), max_size=12
)


@dataclass
class Expected:
    """The expected versions of a tool as (number, bytes, grant), and the active one."""

    versions: list[tuple[int, bytes, str | None]] = field(default_factory=list)
    active: int = 0

    def add(self, data: bytes, grant: str | None) -> bool:
        if not self.versions and grant is None:
            return False
        for number, known, had in self.versions:
            if (known, had) == (data, grant) and (number == self.active or grant is None):
                return True
        # A pending update keeps its number when it is granted.
        waited = [n for n, known, had in self.versions if had is None and known == data]
        number = waited[0] if waited else max((n for n, _, _ in self.versions), default=0) + 1
        self.versions = [v for v in self.versions if v[2] is not None]
        self.versions.append((number, data, grant))
        if grant is not None:
            self.active = number
        return True

    def grant(self) -> bool:
        waiting = [v for v in self.versions if v[2] is None]
        if not waiting:
            return False
        number, data, _ = waiting[0]
        self.versions = [v for v in self.versions if v[2] is not None] + [(number, data, "{}")]
        self.active = number
        return True

    def rollback(self, number: int | None) -> bool:
        granted = [n for n, _, grant in self.versions if grant is not None]
        older = [n for n in granted if n < self.active]
        target = number if number is not None else (older[-1] if older else 0)
        if target not in granted:
            return False
        self.active = target
        return True

    def remove(self) -> bool:
        had = bool(self.versions)
        self.versions, self.active = [], 0
        return had


def do(catalog: Catalog, what: str, which: int | None, grant: str | None) -> bool:
    try:
        if what == "add":
            data = b"component %d" % (which or 0)
            made = NewVersion(name="tool", component=ComponentBytes(data), info=ComponentInfo(world="any"))
            catalog.add(made, grant)
        elif what == "rollback":
            catalog.rollback("tool", which)
        elif what == "remove":
            catalog.remove("tool")
        else:
            waiting = catalog.pending("tool")
            if waiting is None:
                return False
            catalog.grant("tool", waiting.number, "{}", digest=waiting.digest)
    except InstallError:
        return False
    return True


@settings(max_examples=examples(40), deadline=None)
@given(STEPS)
@example([("add", 0, "{}"), ("add", 1, None), ("add", 1, "{}")])
def test_a_catalog_behaves_like_a_plain_list_of_versions(steps: list[tuple[str, int | None, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog, expected = Catalog(Path(folder)), Expected()
        for what, which, grant in steps:
            done = do(catalog, what, which, grant)
            if what == "add":
                assert done == expected.add(b"component %d" % (which or 0), grant)
            elif what == "rollback":
                assert done == expected.rollback(which)
            else:
                assert done == getattr(expected, what)()
            compare(catalog, expected, Path(folder))


def compare(catalog: Catalog, expected: Expected, folder: Path) -> None:
    try:
        versions = catalog.versions("tool")
    except WasmrtError:
        versions = ()
    assert [(v.number, catalog.read(v).data, v.grant) for v in versions] == expected.versions
    assert [v.number for v in versions if v.active] == ([expected.active] if expected.active else [])
    assert all(v.grant is not None for v in versions if v.active)
    stored = list(folder.glob("components/*")) if versions else []
    assert {path.stem for path in stored} == {v.digest for v in versions}

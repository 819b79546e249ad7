"""kill -9 at every line of every change, and concurrent writers: the catalog is always in the old or the new state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.core.component_bytes import ComponentBytes

pytestmark = pytest.mark.ci("kills")

# Forks a child for every line that a change runs in the catalog and its file module, and kills the child at that line.
# The parent then inspects the state. Prints one JSON object: the number of lines, and the states.
KILL_AT_EVERY_LINE = textwrap.dedent("""
    import json, os, shutil, signal, sys
    from pathlib import Path
    import wasmrt.core.files, wasmrt.catalog._catalog as catalog_module
    from wasmrt.core.component_bytes import ComponentBytes
    from wasmrt.catalog import Catalog, ComponentInfo, NewVersion

    home, change = Path(sys.argv[1]), sys.argv[2]
    traced = (str(Path(catalog_module.__file__).parent), wasmrt.core.files.__file__)
    OLD, NEW = b"old bytes", b"new bytes" * 1000

    def draft(data):
        component = ComponentBytes(data)
        return NewVersion(name="echo", component=component, info=ComponentInfo(world="any"), package=component.digest)

    CHANGES = {
        "first": lambda c: c.add(draft(NEW), "{}"),
        "update": lambda c: c.add(draft(NEW), "{}"),
        "wait": lambda c: c.add(draft(NEW), None),
        "remove": lambda c: c.remove("echo"),
    }

    def look(folder):
        catalog = Catalog(folder)
        assert all(f.problem is None for f in catalog.verify()), "half a version"
        state = [[v.number, v.active, v.grant] for v in catalog.versions("echo")] if catalog.has("echo") else []
        for version in catalog.versions("echo") if state else ():
            assert version.package == catalog.read(version).digest, "the package of another version"
        catalog.sweep()
        kept = list((folder / "components").glob("*")) if state else []
        assert len(kept) == len(state), "a stray survives the sweep"
        again = Catalog(folder).add(draft(NEW), "{}")
        assert again.active and Catalog(folder).read(again).data == NEW, "not usable afterwards"
        assert not list(folder.glob("incoming/*")), "a half-written file survives the next change"
        return json.dumps(state)

    before = home / "before"
    if change != "first":
        Catalog(before).add(draft(OLD), "{}")
    else:
        before.mkdir()
    seen, step = [], 0
    while True:
        step += 1
        folder = home / "now"
        shutil.copytree(before, folder)
        child = os.fork()
        if child == 0:
            count = 0
            def trace(frame, event, arg):
                global count
                if not frame.f_code.co_filename.startswith(traced):
                    return None
                if event == "line":
                    count += 1
                    if count == step:
                        os.kill(os.getpid(), signal.SIGKILL)
                return trace
            sys.settrace(trace)
            CHANGES[change](Catalog(folder))
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        seen.append(look(folder))
        shutil.rmtree(folder)
        if not killed:
            break
    print(json.dumps({"steps": step, "seen": sorted(set(seen)), "last": seen[-1]}))
""")

INSTALL_ONE = textwrap.dedent("""
    import sys
    from pathlib import Path
    from wasmrt.core.component_bytes import ComponentBytes
    from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
    worker = int(sys.argv[2])
    sys.stdin.readline()
    for turn in range(5):
        data = b"%d %d" % (worker, turn)
        made = NewVersion(name="echo", component=ComponentBytes(data), info=ComponentInfo(world="any"))
        Catalog(Path(sys.argv[1])).add(made, "{}")
""")


# Forks six children for a catalog that does not exist yet, starts them together, and prints the failed ones.
ALL_FIRST = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    import wasmrt.catalog._catalog
    from wasmrt.core.component_bytes import ComponentBytes
    from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
    for turn in range(20):
        home = Path(sys.argv[1]) / str(turn)
        held, go = os.pipe()
        children = []
        for n in range(6):
            child = os.fork()
            if child == 0:
                os.close(go)
                os.read(held, 1)
                data = b"%d" % n
                made = NewVersion(name="echo", component=ComponentBytes(data), info=ComponentInfo(world="any"))
                try:
                    Catalog(home).add(made, "{}")
                    os._exit(0)
                except BaseException as error:
                    print(repr(error), flush=True)
                    os._exit(1)
            children.append(child)
        os.close(held)
        os.close(go)
        for child in children:
            os.waitpid(child, 0)
        versions = Catalog(home).versions("echo")
        assert [v.number for v in versions] == [1, 2, 3, 4, 5, 6], versions
        assert all(finding.problem is None for finding in Catalog(home).verify())
    print("whole")
""")

ON_A_FULL_DISK = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from wasmrt.core.component_bytes import ComponentBytes
    from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
    from wasmrt.core.errors import InstallError
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    data = b"n" * int(sys.argv[3])
    made = NewVersion(name="echo", component=ComponentBytes(data), info=ComponentInfo(world="any"))
    try:
        Catalog(Path(sys.argv[1])).add(made, "{}")
    except InstallError as error:
        print(error.code, error.hint)
""")


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        ("first", [], [[1, True, "{}"]]),
        ("update", [[1, True, "{}"]], [[1, False, "{}"], [2, True, "{}"]]),
        ("wait", [[1, True, "{}"]], [[1, True, "{}"], [2, False, None]]),
        ("remove", [[1, True, "{}"]], []),
    ],
)
def test_a_kill_at_any_line_leaves_the_old_or_the_new_state(
    tmp_path: Path, change: str, old: list[object], new: list[object]
) -> None:
    out, _ = python(KILL_AT_EVERY_LINE, str(tmp_path), change).communicate()
    report = json.loads(out)
    assert report["steps"] > 30, "the change has too few steps for this test"
    assert report["seen"] == sorted(json.dumps(state) for state in (old, new))
    assert report["last"] == json.dumps(new)


def test_concurrent_installs_of_one_name_each_get_a_version(tmp_path: Path) -> None:
    workers = [python(INSTALL_ONE, str(tmp_path), str(n)) for n in range(3)]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    catalog = Catalog(tmp_path)
    versions = catalog.versions("echo")
    assert [v.number for v in versions] == list(range(1, 16))
    assert {catalog.read(v).data for v in versions} == {b"%d %d" % (w, t) for w in range(3) for t in range(5)}
    assert catalog.sweep() == 0


@pytest.mark.parametrize(("room_bytes", "component_bytes"), [(0, 9), (5_000, 9), (20_000, 9), (99_999, 100_000)])
def test_a_full_disk_leaves_the_old_version_and_is_reported(
    tmp_path: Path, room_bytes: int, component_bytes: int
) -> None:
    # A limit on file sizes fails writes like a full disk, at a chosen point in the component or the index.
    old = b"old"
    catalog = Catalog(tmp_path)
    catalog.add(NewVersion(name="echo", component=ComponentBytes(old), info=ComponentInfo(world="any")), "{}")
    with python(ON_A_FULL_DISK, str(tmp_path), str(room_bytes), str(component_bytes)) as process:
        out, _ = process.communicate()
    assert out == "catalog check the owner of its folder and the free disk space\n"
    assert catalog.read(catalog.get("echo")).data == old
    assert [version.number for version in catalog.versions("echo")] == [1]
    assert all(finding.problem is None for finding in catalog.verify())
    assert list((tmp_path / "incoming").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_that_create_the_catalog_concurrently_create_one(tmp_path: Path) -> None:
    with python(ALL_FIRST, str(tmp_path)) as process:
        out, _ = process.communicate()
    assert out == "whole\n"

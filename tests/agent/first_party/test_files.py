"""The bundled file tools: their functions, limits and grants."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog import Catalog
from wasmrt.catalog.find import find_tool
from wasmrt.core.errors import ToolError
from wasmrt.core.limits import MIB
from wasmrt.core.model import Reason
from wasmrt.core.places import find_places
from wasmrt.runtime.audit import read_keys, read_recording
from wasmrt.runtime.workspace import UndoJournal, undo

Run = Callable[..., Any]
Refused = Callable[..., ToolError]
RACES = int(os.environ.get("WASMRT_WRITE_RACES", "100"))


def paths(found: dict[str, Any]) -> list[str]:
    return [entry["path"] for entry in found["entries"]]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_file_is_read_completely_or_by_lines(root: Path, run: Run) -> None:
    (root / "a.txt").write_bytes("eins\r\nzwei\nd\u00f6rt".encode())
    whole = {"path": "a.txt", "content": "eins\r\nzwei\nd\u00f6rt", "start_line": 1, "lines": 3, "total_lines": 3}
    assert run("read_file", path="a.txt") == run("read_file", path="./a.txt", offset=0) == whole
    part = run("read_file", path="a.txt", offset=2, limit=1)
    assert (part["content"], part["start_line"], part["lines"], part["total_lines"]) == ("zwei\n", 2, 1, 3)
    assert run("read_file", path="a.txt", offset=9)["content"] == ""


def test_at_most_one_mib_is_read_in_a_call(root: Path, run: Run, refused: Refused) -> None:
    (root / "large").write_text("x" * 1023 + "\n" * 1 + ("y" * 1023 + "\n") * 1023)
    assert len(run("read_file", path="large")["content"]) == MIB
    (root / "large").write_text(("x" * 1023 + "\n") * 1024 + "z")
    error = refused("read_file", path="large")
    assert error.code == "tool:too-large" and "offset and limit" in error.message
    assert run("read_file", path="large", offset=1025)["content"] == "z"


def test_lines_of_a_large_file_are_read_with_whole_characters(root: Path, run: Run, refused: Refused) -> None:
    lines = [f"{number} \u20ac\U0001f600\n" for number in range(1, 500_001)]  # characters lie on the cuts between parts
    (root / "log").write_text("".join(lines) + "end", encoding="utf-8")
    for first, count in ((1, 2), (123_456, 50_000), (500_000, 1)):
        part = run("read_file", path="log", offset=first, limit=count)
        assert part["content"] == "".join(lines[first - 1 : first - 1 + count])
        assert (part["start_line"], part["lines"]) == (first, count)
        assert "total_lines" not in part and "not read to its end" in part["note"]
    last = {"path": "log", "content": "end", "start_line": 500_001, "lines": 1, "total_lines": 500_001}
    assert run("read_file", path="log", offset=500_001) == last
    assert run("read_file", path="log", offset=600_000)["total_lines"] == 500_001
    assert refused("read_file", path="log").code == "tool:too-large"
    for end in (b"\xff", "\u20ac".encode()[:2]):
        (root / "log").write_bytes("".join(lines).encode() + end)
        assert refused("read_file", path="log", offset=500_001).code == "tool:not-text"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("none.txt", "tool:not-found"),
        ("folder", "tool:not-a-file"),
        ("binary", "tool:not-text"),
        ("/etc/passwd", "tool:invalid-path"),
        ("../outside.txt", "tool:invalid-path"),
        ("folder/../../outside.txt", "tool:invalid-path"),
        ("..\\outside.txt", "tool:invalid-path"),
        ("C:\\x", "tool:invalid-path"),
        ("a\0b", "tool:invalid-path"),
        ("%2e%2e/outside.txt", "tool:not-found"),
        ("..%2foutside.txt", "tool:not-found"),
        ("\u2025/outside.txt", "tool:not-found"),
        ("far", "tool:invalid-path"),
        ("far-folder/outside.txt", "tool:invalid-path"),
        ("x" * 5000, "tool:invalid-path"),
        ("", "tool:missing-param"),
        ("vault/key", "tool:vault"),
        ("./VAULT//key", "tool:vault"),
    ],
)
def test_paths_cannot_leave_the_workspace(root: Path, refused: Refused, path: str, code: str) -> None:
    (root.parent / "outside.txt").write_text("outside")
    (root / "folder").mkdir()
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "far").symlink_to(root.parent / "outside.txt")
    (root / "far-folder").symlink_to("..")
    assert refused("read_file", path=path).code == code


def test_folder_listing_does_not_enter_large_folders(root: Path, run: Run) -> None:
    for folder in ("src/deep/er/est", "node_modules/x", ".git", "target/debug", "build", "vault"):
        (root / folder).mkdir(parents=True)
    for file in ("src/a.py", "src/deep/b.py", "src/deep/er/c.py", "node_modules/x/n.js", "build/out", ".gitignore"):
        (root / file).write_text("build/\n*.log\n")
    (root / "x.log").write_text("")
    assert paths(run("list_dir")) == [".git", ".gitignore", "build", "node_modules", "src", "target", "vault", "x.log"]
    found = run("list_dir", recursive=True)
    left = {entry["path"]: entry["not_entered"] for entry in found["entries"] if "not_entered" in entry}
    skipped = dict.fromkeys((".git", "node_modules", "target"), "skipped")
    assert left == {**skipped, "build": "ignored", "vault": "vault", "src/deep/er": "deeper"}
    assert "src/deep/b.py" in paths(found) and "x.log" not in paths(found)
    assert "src/deep/er/c.py" in paths(run("list_dir", recursive=True, max_depth=4))
    assert paths(run("list_dir", path="node_modules")) == ["x"]
    assert paths(run("list_dir", path="src")) == ["a.py", "deep"]


def test_at_most_500_entries_are_listed(root: Path, run: Run) -> None:
    for number in range(501):
        (root / f"{number:04}").touch()
    found = run("list_dir")
    assert len(found["entries"]) == 500 and found["truncated"]
    (root / "0500").unlink()
    assert not run("list_dir")["truncated"]


# -- searching ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sources(root: Path) -> None:
    for path, text in {
        "a.py": "def one():\n    return 1\n",
        "src/b.py": "class Two:\n    # TODO: \u00fcber\n",
        "src/c.rs": "fn one() {}\n",
        "src/skip/d.py": "def one(): pass\n",
        "src/skip/keep.py": "def one(): pass\n",
        ".gitignore": "# comment\n*.log\n/src/skip/*\n!keep.py\n[broken\n",
        "x.log": "def one\n",
        "node_modules/m.py": "def one\n",
        "vault/v.py": "def one\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "binary.py").write_bytes(b"def one\0")
    (root / "latin.py").write_bytes(b"def one \xff")


def found_in(result: dict[str, Any]) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


@pytest.mark.usefixtures("sources")
def test_text_search_uses_regular_expressions_and_gitignore(run: Run) -> None:
    result = run("file_search", pattern=r"def \w+\(\)")
    assert found_in(result) == [("a.py", 1), ("src/skip/keep.py", 1)]
    assert result["not_text"] == 1 and not result["truncated"]
    assert result["matches"][0]["text"] == "def one():"
    ignored = found_in(run("file_search", pattern="def one", include_ignored=True))
    assert ("x.log", 1) in ignored and ("src/skip/d.py", 1) in ignored
    assert not [path for path, _ in ignored if path.startswith(("node_modules", "vault"))]


@pytest.mark.usefixtures("sources")
def test_search_can_be_limited_by_glob_path_case_and_number(run: Run, refused: Refused) -> None:
    assert found_in(run("file_search", pattern="one", glob="*.rs")) == [("src/c.rs", 1)]
    assert found_in(run("file_search", pattern="ONE", path="src", ignore_case=True)) == [
        ("src/c.rs", 1),
        ("src/skip/keep.py", 1),
    ]
    assert found_in(run("file_search", pattern="one()", literal=True, path="a.py")) == [("a.py", 1)]
    assert [match["path"] for match in run("file_search", glob="**/*.py")["matches"]] == [
        "a.py",
        "binary.py",
        "latin.py",
        "src/b.py",
        "src/skip/keep.py",
    ]
    below = [match["path"] for match in run("file_search", glob="*.py", path="src")["matches"]]
    assert below == ["src/b.py", "src/skip/keep.py"]
    few = run("file_search", pattern="one", max_results=1)
    assert len(few["matches"]) == 1 and few["truncated"]
    assert refused("file_search").code == "tool:missing-param"
    assert "no regular expression" in refused("file_search", pattern="(").message
    assert refused("file_search", glob="[").code == "tool:invalid-glob"
    assert refused("file_search", pattern="x", path="none").code == "tool:not-found"


def test_catastrophic_pattern_is_fast(root: Path, run: Run) -> None:
    (root / "a").write_text("a" * 100_000 + "b")
    assert run("file_search", pattern="(a+)+$")["matches"] == []


# -- changing ----------------------------------------------------------------------------------------------------------


def test_file_is_written_with_missing_parent_folders(root: Path, run: Run, refused: Refused) -> None:
    assert run("write_file", path="new/deep/a.txt", content="h\u00e9") == {
        "path": "new/deep/a.txt",
        "bytes": 3,
        "created": True,
        "folders": ["new", "new/deep"],
    }
    (root / "new/deep/a.txt").chmod(0o600)
    assert not run("write_file", path="new/deep/a.txt", content="x")["created"]
    assert (root / "new/deep/a.txt").read_text() == "x" and (root / "new/deep/a.txt").stat().st_mode & 0o777 == 0o600
    assert len(run("write_file", path="large", content="x" * 5 * MIB)) == 4
    assert refused("write_file", path="large", content="x" * (5 * MIB + 1)).code == "tool:too-large"
    assert (root / "large").stat().st_size == 5 * MIB
    assert refused("write_file", path="large/x", content="").code == "tool:not-a-folder"


IDENTITY = ("HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md", "daily/x.md", "context/x.md")


@pytest.mark.parametrize("path", [*IDENTITY, "agents.MD", "sOUL.md", "\uff21GENTS.md", "Daily/deep/x"])
def test_identity_files_cannot_be_written(root: Path, prepared: Any, refused: Refused, path: str) -> None:
    (root / "mine.md").write_text("x")
    for tool, params in {
        "write_file": {"path": path, "content": "mine"},
        "files.move_glob": {"from": ".", "patterns": ["mine.md"], "to": str(Path(path).parent)},
    }.items():
        if tool == "files.move_glob" and "/" not in path:
            continue
        error = refused(tool, **params)
        assert error.code == "tool:protected-file", tool
        assert error.decisions[-1].reason == Reason.PROTECTED_FILE
    assert sorted(path.name for path in root.rglob("*.md")) == ["mine.md"]


def test_edit_replaces_exactly_one_match(root: Path, run: Run, refused: Refused) -> None:
    path = root / "a.py"
    path.write_text("def one():\n    return 1\n\ndef two():\n    return 1\n")
    error = refused("apply_patch", path="a.py", old_string="return 1", new_string="return 2")
    assert error.code == "tool:not-unique" and "lines 2, 5" in error.message and "replace_all" in error.message
    done = run("apply_patch", path="a.py", old_string="two():\n    return 1", new_string="two():\n    return 2")
    assert done["replacements"] == 1 and "+    return 2" in done["diff"]
    assert run("file_edit", path="a.py", old_string="def", new_string="fn", replace_all=True)["replacements"] == 2
    assert path.read_text() == "fn one():\n    return 1\n\nfn two():\n    return 2\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("def two():\n    return 3", "the nearest place is at line 4: def two(): return 1"),
        ("Def One():", "the nearest place is at line 1: def one():"),
        ("  return 1\nxxxxx", "the nearest place is at line"),
        ("\u00e4\u00f6\u00fc", "and nothing like it"),
    ],
)
def test_failed_edit_shows_the_nearest_match(root: Path, refused: Refused, old: str, said: str) -> None:
    (root / "a.py").write_text("def one():\n    return 1\n\ndef two():\n    return 1\n")
    error = refused("apply_patch", path="a.py", old_string=old, new_string="x")
    assert error.code == "tool:no-match"
    assert said in error.message


def test_line_endings_are_distinguished(root: Path, run: Run, refused: Refused) -> None:
    (root / "a").write_bytes(b"one\r\ntwo\r\n")
    assert "CR LF" in refused("apply_patch", path="a", old_string="one\ntwo", new_string="x").message
    run("apply_patch", path="a", old_string="one\r\ntwo", new_string="x")
    assert (root / "a").read_bytes() == b"x\r\n"
    assert refused("apply_patch", path="a", old_string="", new_string="x").code == "tool:invalid-params"
    assert refused("apply_patch", path="a", old_string="x", new_string="x").code == "tool:invalid-params"
    assert refused("apply_patch", path="none", old_string="x", new_string="y").code == "tool:not-found"


DIFF = """\
diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
diff --git a/new/b.txt b/new/b.txt
new file mode 100644
--- /dev/null
+++ b/new/b.txt
@@ -0,0 +1,2 @@
+made
+here
"""


def test_unified_diff_is_applied_atomically(root: Path, run: Run, refused: Refused) -> None:
    (root / "a.txt").write_text("zero\none\ntwo\nthree\n")
    shown = {"start_line": 3, "lines": 1, "text": "1: zero\n2: one\n3: TWO\n4: three\n"}
    dry = run("apply_diff", diff=DIFF, dry_run=True)
    assert (root / "a.txt").read_text() == "zero\none\ntwo\nthree\n" and not (root / "new").exists()
    done = run("apply_diff", diff=DIFF)["files"]
    assert done == dry["files"]
    assert done[0] == {"path": "a.txt", "hunks": 1, "created": False, "regions": [shown]}
    assert (done[1]["path"], done[1]["created"]) == ("new/b.txt", True)
    assert (root / "a.txt").read_text() == "zero\none\nTWO\nthree\n"
    assert (root / "new/b.txt").read_text() == "made\nhere\n"
    (root / "new/b.txt").unlink()
    error = refused("apply_diff", diff=DIFF)
    assert error.code == "tool:no-match" and "a.txt" in error.message and not (root / "new/b.txt").exists()
    hunk = "--- x\n+++ x\n@@ -1 +1 @@\n-zero\n+0\n"
    assert run("apply_diff", diff=hunk, path="a.txt")["files"][0]["path"] == "a.txt"


def test_text_without_certain_changes_is_refused(root: Path, refused: Refused) -> None:
    names = "--- a/a.txt\n+++ b/a.txt\n"
    cases = {
        "": "invalid-diff",
        "nonsense": "invalid-diff",
        names: "invalid-diff",
        f"{names}-two\n+TWO\n": "invalid-diff",
        f"{names}@@ -2 +2 @@\n two\n": "invalid-diff",
        f"{names}@@ -2 +2 @@\n-two\n+TWO\nleft over\n": "invalid-diff",
        f"{names}@@\n+new\n": "no-match",
        f"{names}@@\n-same\n+other\n": "not-unique",
        "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n": "invalid-diff",
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n": "invalid-diff",
        "*** Begin Patch\n*** Update File: a.txt\n@@ other\n-two\n+TWO\n*** End Patch": "no-match",
        "a.txt\n<<<<<<< SEARCH\ntwo\n>>>>>>> REPLACE": "invalid-diff",
        "a.txt\n<<<<<<< SEARCH\ntwo\n=======\nTWO\n=======\n>>>>>>> REPLACE": "invalid-diff",
    }
    content = "one\ntwo\nsame\nsame\n"
    (root / "a.txt").write_text(content)
    for diff, code in cases.items():
        error = refused("apply_diff", diff=diff)
        assert error.code == f"tool:{code}", diff
        assert (root / "a.txt").read_text() == content
        assert code != "not-unique" or "fits at lines 3 and 4" in error.message


def test_formats_of_models_change_create_move_and_delete_files(root: Path, run: Run) -> None:
    (root / "a.py").write_text("class A:\n    x = 1\n\nclass B:\n    x = 1\n")
    (root / "old.txt").write_text("old\n")
    (root / "gone").write_bytes(b"\xff")
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ class B:\n-    x = 1\n+    x = 2\n*** Add File: in/new.txt\n+new\n"
        "*** Update File: old.txt\n*** Move to: moved/old.txt\n@@\n-old\n+moved\n*** Delete File: gone\n*** End Patch"
    )
    run("apply_diff", diff=patch)
    assert (root / "a.py").read_text() == "class A:\n    x = 1\n\nclass B:\n    x = 2\n"
    assert (root / "in/new.txt").read_text() == "new\n" and (root / "moved/old.txt").read_text() == "moved\n"
    assert sorted(path.name for path in root.iterdir()) == ["a.py", "in", "moved"]
    block = "a.py\n```python\n<<<<<<< SEARCH\n    x = 2\n=======\n    x = 3\n>>>>>>> REPLACE\n```\n"
    run("apply_diff", diff=block)
    assert (root / "a.py").read_text().endswith("x = 3\n")


def test_failed_patch_takes_back_its_changes(root: Path, refused: Refused) -> None:
    (root / "a.sh").write_text("one\n")
    (root / "a.sh").chmod(0o755)
    (root / "AGENTS.md").write_text("rules\n")
    patch = "*** Begin Patch\n*** Add File: in/b\n+b\n*** Delete File: a.sh\n*** Delete File: AGENTS.md\n*** End Patch"
    assert refused("apply_diff", diff=patch).code == "tool:protected-file"
    assert sorted(path.name for path in root.iterdir()) == ["AGENTS.md", "a.sh"]
    assert (root / "a.sh").read_text() == "one\n" and (root / "a.sh").stat().st_mode & 0o777 == 0o755


def test_removing_a_folder_requires_recursive(root: Path, run: Run, refused: Refused) -> None:
    (root / "folder/in").mkdir(parents=True)
    (root / "folder/in/a").write_text("a")
    (root / "b").write_text("b")
    assert run("file_delete", path="b") == {"path": "b", "files": 1, "folders": 0}
    assert refused("file_delete", path="folder").code == "tool:not-empty"
    assert run("file_delete", path="folder", recursive=True) == {"path": "folder", "files": 1, "folders": 2}
    assert list(root.iterdir()) == []
    assert refused("file_delete", path="b").code == "tool:not-found"
    for path in (".", "", "/"):
        assert refused("file_delete", path=path, recursive=True).code in ("tool:missing-param", "tool:invalid-path")


def test_move_by_pattern_does_not_overwrite_files(root: Path, run: Run, refused: Refused) -> None:
    (root / "from/folder.log").mkdir(parents=True)
    for name in ("a.log", "b.txt", "c.md"):
        (root / "from" / name).write_text(name)
    moved = {"from": "from", "patterns": ["*.log", "?.txt"], "to": "to/deep"}
    assert run("files.move_glob", **moved) == {"from": "from", "to": "to/deep", "moved": ["a.log", "b.txt"]}
    assert sorted(path.name for path in (root / "from").iterdir()) == ["c.md", "folder.log"]
    (root / "from" / "a.log").write_text("again")
    error = refused("files.move_glob", **moved)
    assert error.code == "tool:already-exists" and (root / "from/a.log").read_text() == "again"
    assert refused("files.move_glob", **{**moved, "patterns": []}).code == "tool:missing-param"
    assert refused("files.move_glob", **{**moved, "from": "none"}).code == "tool:not-found"


def test_missing_folder_is_created(root: Path, run: Run, refused: Refused) -> None:
    assert run("files.ensure_dir", path="a/b")["created"] == ["a", "a/b"]
    assert run("files.ensure_dir", path="a/b")["created"] == []
    (root / "file").write_text("")
    assert refused("files.ensure_dir", path="file/x").code == "tool:not-a-folder"


def test_vault_can_only_be_copied_from(root: Path, run: Run, refused: Refused) -> None:
    (root / "vault/keys").mkdir(parents=True)
    (root / "vault/keys/k").write_bytes(b"\xff" * 4 * MIB)
    copied = run("vault_copyto", source="vault/keys/k", destination="shared")
    assert copied == {"source": "vault/keys/k", "destination": "shared/k", "bytes": 4 * MIB}
    assert (root / "shared/k").read_bytes() == b"\xff" * 4 * MIB
    assert run("vault_copyto", source="vault/keys/k", destination="tmp/x/y")["destination"] == "tmp/x/y"
    assert refused("vault_copyto", source="vault/keys/k", destination="shared").code == "tool:already-exists"
    for source, destination in (
        ("shared/k", "tmp/z"),
        ("vault/keys/k", "out"),
        ("vault/../a", "tmp/z"),
        ("/vault/a", "tmp/z"),
    ):
        assert refused("vault_copyto", source=source, destination=destination).code in (
            "tool:not-in-vault", "tool:not-open", "tool:invalid-path"
        )  # fmt: skip
    for tool, params in {
        "file_delete": {"path": "vault/keys/k"},
        "write_file": {"path": "vault/new", "content": ""},
        "list_dir": {"path": "vault"},
        "file_search": {"pattern": "x", "path": "vault"},
        "apply_patch": {"path": "vault/keys/k", "old_string": "x", "new_string": "y"},
        "files.move_glob": {"from": "vault/keys", "patterns": ["*"], "to": "shared"},
        "files.ensure_dir": {"path": "vault/x"},
        "apply_diff": {"diff": "@@ -1 +1 @@\n-x\n+y\n", "path": "vault/keys/k"},
    }.items():
        assert refused(tool, **params).code == "tool:vault", tool


# -- sandbox -----------------------------------------------------------------------------------------------------------


def test_each_tool_is_limited_to_its_own_grant(prepared: Callable[[str], PreparedTool]) -> None:
    for name in ("read_file", "list_dir", "file_search"):
        grant = prepared(name).capabilities
        assert grant.workspace_write is None and grant.workspace_read is not None, name
    for name in ("write_file", "apply_patch", "apply_diff", "files.ensure_dir", "files.move_glob", "file_delete"):
        grant = prepared(name).capabilities
        assert grant.workspace_write is not None and grant.workspace_write.remove == (
            name in ("file_delete", "apply_diff")
        ), name
    copying = prepared("vault_copyto").capabilities
    assert copying.workspace_write is not None and copying.workspace_write.allowed_prefixes == ("shared/", "tmp/")
    for name in ("read_file", "file_delete", "vault_copyto"):
        grant = prepared(name).capabilities
        assert grant.http is grant.secrets is grant.tool_invoke is None, name


def test_narrower_grant_applies_and_its_denial_names_the_entry(root: Path) -> None:
    (root / "in").mkdir()
    (root / "out.txt").write_text("x")
    found = find_tool("write_file", Catalog(find_places().data))
    narrow = found.grant.with_workspace_write(("in/",)).with_workspace_read(("in/",))
    with WasmToolRuntime(WasmRuntimeConfig(workspace=root)) as runtime:
        tool = runtime.prepare("write_file", found.component, narrow, tools=found.tools)
        assert tool.execute({"path": "in/a", "content": "x"}).result["created"]
        with pytest.raises(ToolError) as caught:
            tool.execute({"path": "out.txt", "content": "y"})
    assert (root / "out.txt").read_text() == "x"
    assert caught.value.decisions[-1].reason == Reason.PREFIX_NOT_ALLOWED
    assert "allowed_prefixes" in (caught.value.decisions[-1].hint or "")


def test_denial_without_a_workspace_suggests_setting_one(home: Path) -> None:
    with WasmToolRuntime(WasmRuntimeConfig()) as runtime, pytest.raises(ToolError) as caught:
        runtime.prepare_installed("read_file").execute({"path": "a"})
    assert "--workspace DIR" in (caught.value.decisions[-1].hint or "")


def test_undo_reverts_the_changes_of_every_tool(root: Path, prepared: Callable[[str], PreparedTool]) -> None:
    (root / "from").mkdir()
    for name in ("a.log", "b.log"):
        (root / "from" / name).write_text(name)
    (root / "from/a.log").chmod(0o751)

    def seen() -> dict[str, tuple[int, bytes]]:
        files = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes()) for path in files}

    journal = UndoJournal(find_places().undo)
    before = seen()
    for tool, params in (
        ("file_delete", {"path": "from", "recursive": True}),
        ("files.move_glob", {"from": "from", "patterns": ["*"], "to": "new/to"}),
        ("write_file", {"path": "from/a.log", "content": "new"}),
        ("apply_patch", {"path": "from/a.log", "old_string": "a", "new_string": "b"}),
        ("apply_diff", {"diff": "*** Begin Patch\n*** Delete File: from/a.log\n*** Add File: c\n+c\n*** End Patch"}),
    ):
        done = prepared(tool).execute(params)
        assert seen() != before, tool
        undo(journal, done.call_id)
        assert seen() == before and [path.name for path in root.iterdir()] == ["from"], tool


@pytest.mark.ci("slow")
def test_concurrent_folder_changes_do_not_allow_escapes(root: Path, prepared: Callable[[str], PreparedTool]) -> None:
    outside = root.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "a").write_text("outside")
    place, real = root / "place", root / "real"
    real.mkdir()
    (real / "a").write_text("inside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            shutil.rmtree(place, ignore_errors=True)  # write_file recreates it if it is missing
            with contextlib.suppress(OSError):
                real.rename(place)
                place.rename(real)
                place.symlink_to(outside)
            with contextlib.suppress(OSError):
                place.unlink()

    racer = threading.Thread(target=swap)
    racer.start()
    try:
        for number in range(RACES):
            for tool, params in (
                ("write_file", {"path": "place/a", "content": f"inside {number}"}),
                ("apply_patch", {"path": "place/a", "old_string": "side", "new_string": "SIDE"}),
                ("read_file", {"path": "place/a"}),
                ("file_delete", {"path": "place/a"}),
            ):
                try:
                    answer = prepared(tool).execute(params).raw or ""
                except ToolError as error:
                    answer = error.message
                assert "outside" not in answer
    finally:
        stop.set()
        racer.join()
    assert (outside / "a").read_text() == "outside" and os.listdir(outside) == ["a"]


@pytest.mark.parametrize("isolation", ["in-process", "process"])
def test_replay_of_a_call_does_not_access_files(root: Path, tmp_path: Path, isolation: str) -> None:
    (root / "vault").mkdir()
    (root / "vault/k").write_bytes(b"\xffkey")
    (root / "a.txt").write_text("one\n")
    folder = tmp_path / "receipts"
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("vault_copyto", {"source": "vault/k", "destination": "shared/deep/k"}),
        ("apply_patch", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
        ("list_dir", {"recursive": True}),
        ("files.move_glob", {"from": "", "patterns": ["a.*"], "to": "moved"}),
        ("file_delete", {"path": "moved", "recursive": True}),
    )
    settings = WasmRuntimeConfig(workspace=root, audit=folder, audit_record=True, isolation=isolation)  # type: ignore[arg-type]
    with WasmToolRuntime(settings) as recording:
        ids = [recording.prepare_installed(tool).execute(params).call_id for tool, params in calls]
    before = sorted(path.name for path in root.rglob("*"))
    with WasmToolRuntime(WasmRuntimeConfig()) as dry:
        for (tool, _), call_id in zip(calls, ids, strict=True):
            known = read_recording(folder, read_keys(find_places().receipts_key), call_id)
            replayed = dry.prepare_installed(tool).replay(known)
            assert replayed.same, (tool, replayed.difference)
    assert sorted(path.name for path in root.rglob("*")) == before

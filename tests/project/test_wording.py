"""The check for unclear phrasing: `python -m tools.wording`, a step of CI."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.wording.texts import Text, project_texts, scan


def test_a_marker_is_found_with_its_place() -> None:
    report = scan([Text("docs", "page.md", "Nobody reads it anew."), Text("message", "a.py:3", "a plain sentence")])
    assert [(match.text.place, match.found) for match in report.matches] == [("page.md", "Nobody"), ("page.md", "anew")]
    assert report.densities == {"docs": 500.0, "message": 0.0}
    assert report.above_limit() == ["docs"]


def test_every_kind_of_text_is_scanned(tmp_path: Path) -> None:
    (tmp_path / "wasmrt").mkdir()
    (tmp_path / "page.md").write_text("Read `nobody` here.\n\n```sh\nnobody\n```\n")
    (tmp_path / "wasmrt/a.py").write_text(
        '"""A docstring."""\n\nTEXT = "a message of five words"  # a comment\n\n\ndef test_a_name() -> None: ...\n'
    )
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    texts = {text.kind: text.text for text in project_texts(tmp_path)}
    assert {kind: " ".join(text.split()) for kind, text in texts.items()} == {
        "docs": "Read here.",
        "docstring": "A docstring.",
        "message": "a message of five words",
        "comment": "a comment",
        "test-name": "a name",
    }

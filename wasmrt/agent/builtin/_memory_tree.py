"""The documents of a memory as a tree of folders, within bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wasmrt.agent.builtin.memory import MemoryEntry
from wasmrt.core.limits import MAX_MEMORY_TREE_ENTRIES


def tree_of(path: str, documents: Iterable[MemoryEntry], depth: int) -> dict[str, Any]:
    """Return the documents below `path` as folders and files, `depth` folders down.

    A folder that is not opened says how many files it holds. What is over the bound is counted as `omitted`.
    """
    top = "/".join(part for part in path.split("/") if part not in ("", "."))
    root: dict[str, Any] = {"path": top, "entries": []}
    folders: dict[str, dict[str, Any]] = {"": root}
    skip, shown, omitted = len(top.split("/")) if top else 0, 0, 0
    for document in documents:
        names = document.path.split("/")[skip:]
        opened = names[: min(len(names) - 1, depth)]
        missing = [key for n in range(len(opened)) if (key := "/".join(names[: n + 1])) not in folders]
        shows_file = len(names) <= depth
        if shown + len(missing) + shows_file > MAX_MEMORY_TREE_ENTRIES:
            omitted += 1
            continue
        for key in missing:
            folders[key] = {"name": f"{key.rpartition('/')[2]}/", "files": 0, "entries": []}
            folders[key.rpartition("/")[0]]["entries"].append(folders[key])
        for n in range(len(opened)):
            folders["/".join(names[: n + 1])]["files"] += 1
        shown += len(missing) + shows_file
        if shows_file:
            file = {"name": names[-1], "bytes": document.bytes, "version": document.number}
            folders["/".join(names[:-1])]["entries"].append(file)
    for key, folder in folders.items():
        if key and not folder["entries"]:
            del folder["entries"]
    return root | ({"omitted": omitted} if omitted else {})

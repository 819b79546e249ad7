"""Documents of the memory: write, append, read at any version, restore, remove, and limits."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.postgres_server import Place, on_a_file
from tests.tiers import examples
from wasmrt.agent.builtin.memory import Author, MemoryStore, Trust
from wasmrt.core.errors import InvalidParametersError, MemoryStoreError
from wasmrt.runtime.memory import MemorySettings


def test_writes_append_or_replace_and_every_version_is_readable(store: MemoryStore) -> None:
    store.write("ann", "notes.md", "one")
    store.write("ann", "notes.md", "two\n")
    store.write("ann", "notes.md", "three")
    store.write("ann", "notes.md", "new", append=False)
    assert store.read("ann", "notes.md").content == "new"
    versions = {number: store.read("ann", "notes.md", version=number).content for number in (1, 2, 3, 4)}
    assert versions == {1: "one", 2: "one\ntwo\n", 3: "one\ntwo\nthree", 4: "new"}
    assert [(v.number, v.appended) for v in store.history("ann", "notes.md")] == [
        (4, False), (3, True), (2, True), (1, False),
    ]  # fmt: skip


def test_restored_version_is_a_new_version_with_the_old_trust(store: MemoryStore) -> None:
    store.write("ann", "a.md", "from a page", trust=Trust.UNTRUSTED)
    store.write("ann", "a.md", "by ann", trust=Trust.TRUSTED, append=False, author=Author.PERSON)
    assert store.read("ann", "a.md").trust is Trust.TRUSTED
    made = store.restore("ann", "a.md", 1)
    assert (made.number, made.author, made.trust) == (3, Author.PERSON, Trust.UNTRUSTED)
    assert store.read("ann", "a.md")[1:4] == ("from a page", 3, Trust.UNTRUSTED)
    assert store.read("ann", "a.md", version=2).content == "by ann"


def test_document_has_the_lowest_trust_of_its_current_content(store: MemoryStore) -> None:
    store.write("ann", "a.md", "by ann", trust=Trust.TRUSTED)
    store.write("ann", "a.md", "from a page", trust=Trust.UNTRUSTED)
    store.write("ann", "a.md", "by ann", trust=Trust.TRUSTED)
    assert store.read("ann", "a.md").trust is Trust.UNTRUSTED
    assert store.entries("ann")[0].trust is Trust.UNTRUSTED
    assert {hit.content.strip(): hit.trust for hit in store.search("ann", "ann page").hits}["from a page"] is (
        Trust.UNTRUSTED
    )


@pytest.mark.parametrize("other", ["NOTES/a.md", "notes/A.MD", "./notes//a.md", "notes/\uff41.md"])
def test_paths_that_differ_in_case_or_unicode_form_are_one_document(store: MemoryStore, other: str) -> None:
    store.write("ann", "notes/a.md", "one")
    store.write("ann", other, "two")
    assert [entry.path for entry in store.entries("ann")] == ["notes/a.md"]
    assert store.read("ann", other).content == "one\ntwo"


def test_entries_of_a_folder_exclude_folders_with_similar_names(store: MemoryStore) -> None:
    for path in ("a/x.md", "a/b/y.md", "ab/z.md", "a%/w.md", "A/v.md"):
        store.write("ann", path, "text")
    assert [entry.path for entry in store.entries("ann", "a")] == ["a/b/y.md", "A/v.md", "a/x.md"]
    assert [entry.path for entry in store.entries("ann", "a%")] == ["a%/w.md"]
    assert len(store.entries("ann", "./")) == 5 and store.entries("unknown") == []


@on_a_file
def test_removed_document_is_not_in_versions_search_or_files(store: MemoryStore, folder: Path) -> None:
    store.write("ann", "a.md", "the codeword is xylophonist")
    store.write("ann", "a.md", "and xylophonists again", append=False)
    store.write("ann", "b.md", "something else")
    store.remove("ann", "a.md")
    assert store.search("ann", "xylophonist").hits == () and [e.path for e in store.entries("ann")] == ["b.md"]
    with pytest.raises(MemoryStoreError, match=r"has no document 'a\.md'"):
        store.read("ann", "a.md")
    held = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"xylophon" not in held and b"something else" in held


def test_missing_document_raises_an_error_and_creates_no_file(store: MemoryStore, folder: Path) -> None:
    for ask in (
        lambda: store.read("ann", "a.md"), lambda: store.history("ann", "a.md"), lambda: store.remove("ann", "a.md"),
        lambda: store.restore("ann", "a.md", 1),
    ):  # fmt: skip
        with pytest.raises(MemoryStoreError) as caught:
            ask()
        assert caught.value.code == "memory-not-found"
    assert not folder.exists()
    store.write("ann", "a.md", "one")
    for number in (0, 2, -1, 2**62, 2**80):
        with pytest.raises(MemoryStoreError, match="has no version"):
            store.restore("ann", "a.md", number)


@pytest.mark.parametrize("text", ["", " \n", "a\0b", "\ud800", None, 7])
def test_invalid_text_is_rejected(store: MemoryStore, text: str) -> None:
    with pytest.raises(InvalidParametersError):
        store.write("ann", "a.md", text)
    assert store.entries("ann") == []


@on_a_file
def test_database_files_are_private(store: MemoryStore, folder: Path) -> None:
    store.write("ann", "a.md", "one")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_write_beyond_the_document_limit_changes_nothing(place: Place) -> None:
    store = MemoryStore(MemorySettings(max_document_bytes=100), place)
    store.write("ann", "a.md", "x" * 60)
    with pytest.raises(MemoryStoreError) as caught:
        store.write("ann", "a.md", "é" * 20)
    assert caught.value.code == "memory-too-large"
    assert store.read("ann", "a.md")[1:3] == ("x" * 60, 1)
    store.write("ann", "a.md", "é" * 50, append=False)


def test_full_memory_drops_old_versions_but_never_current_content(place: Place) -> None:
    store = MemoryStore(MemorySettings(max_user_bytes=1000), place)
    for n in range(20):
        store.write("ann", "a.md", str(n).zfill(150), append=False)
    kept = [version.number for version in store.history("ann", "a.md")]
    assert kept[0] == 20 and 2 <= len(kept) <= 6
    store.write("ann", "b.md", "y" * 800)
    assert [version.number for version in store.history("ann", "a.md")] == [20]
    with pytest.raises(MemoryStoreError) as caught:
        store.write("ann", "c.md", "z" * 100)
    assert caught.value.code == "memory-full"
    assert sorted(entry.path for entry in store.entries("ann")) == ["a.md", "b.md"]
    assert store.write("bob", "c.md", "z" * 100).number == 1


@pytest.mark.parametrize("most", [1, 3, 7])
def test_the_configured_number_of_versions_is_kept_unchanged(place: Place, most: int) -> None:
    store, expected, text = MemoryStore(MemorySettings(max_versions=most), place), {}, ""
    for n in range(1, 40):
        append = n % 6 != 0
        text = f"{text}\n{n}" if append and text else str(n)
        store.write("ann", "a.md", str(n), append=append, trust=Trust.UNTRUSTED if n == 13 else Trust.TRUSTED)
        expected[n] = text
    kept = [version.number for version in store.history("ann", "a.md")]
    assert kept == list(range(39, 36 - most - 1, -1))  # the last writes are the current content, not history
    assert {n: store.read("ann", "a.md", version=n).content for n in kept} == {n: expected[n] for n in kept}


class Model:
    """A simple model of the memory."""

    def __init__(self) -> None:
        self.versions: dict[str, list[str]] = {}

    def write(self, path: str, text: str, append: bool) -> None:
        known = self.versions.setdefault(path, [])
        old = known[-1] if append and known else ""
        known.append(old + ("" if not old or old.endswith("\n") else "\n") + text)


steps = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.text(alphabet="xy \né", min_size=1, max_size=8).filter(str.strip), st.booleans()
    ),
    max_size=12,
)


def test_any_sequence_of_writes_reads_back_as_in_the_model(store: MemoryStore) -> None:
    users = map(str, count())

    @settings(max_examples=examples(12), deadline=None)
    @given(steps=steps)
    def write(steps: list[tuple[str, str, bool]]) -> None:
        user, model = next(users), Model()
        for path, text, append in steps:
            store.write(user, path, text, append=append)
            model.write(path, text, append)
        for path, versions in model.versions.items():
            assert [store.read(user, path, version=n + 1).content for n in range(len(versions))] == versions
            assert store.read(user, path).content == versions[-1]
        sizes = {entry.path: entry.bytes for entry in store.entries(user)}
        assert sizes == {path: len(versions[-1].encode()) for path, versions in model.versions.items()}

    write()

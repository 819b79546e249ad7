"""The capability to write the workspace: its section, its bounds, and names that are never written."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.capabilities import (
    KINDS,
    Capabilities,
    EndpointPattern,
    WorkspaceWriteCapability,
    effects_of,
    find_missing_entries,
    for_tool,
    with_fewest_entries,
    within_effects,
    within_write_paths,
)
from wasmrt.capabilities._phrases import join_words
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain, review
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.limits import DEFAULT_WRITE_BYTES, DEFAULT_WRITE_FILE_BYTES, DEFAULT_WRITE_FILES, MAX_WRITE_BYTES
from wasmrt.core.model import Addition, Reason

IDENTITY = ["HEARTBEAT.md", "MEMORY.md", "IDENTITY.md", "SOUL.md", "AGENTS.md", "USER.md", "daily", "context"]


def read(section):
    return Capabilities.parse(json.dumps({"workspace_write": section}))


def mistakes(document):
    with pytest.raises(CapabilityFileError) as caught:
        Capabilities.parse(json.dumps(document))
    return dict(caught.value.problems)


def test_reading_and_writing_are_separate_capabilities():
    assert Capabilities.parse('{"workspace": true}').workspace_write is None
    written = read({"allowed_prefixes": ["out/"]})
    assert written.workspace_read is None
    assert written.explain_workspace_write("out/a.txt").allowed
    assert not written.explain_workspace("out/a.txt").allowed
    assert not written.explain_workspace_write("outer/a.txt").allowed
    assert written.workspace_write is not None
    assert [written.workspace_write.allows(path) for path in ("out/a.txt", "outer/a.txt", "")] == [True, False, False]


def test_a_section_has_default_bounds():
    assert read({"allowed_prefixes": ["out/"]}).workspace_write == WorkspaceWriteCapability(
        ("out/",), DEFAULT_WRITE_FILE_BYTES, DEFAULT_WRITE_BYTES, DEFAULT_WRITE_FILES, remove=False
    )
    assert read(True).workspace_write == WorkspaceWriteCapability(("",))
    assert read(False).workspace_write is None


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ({}, "workspace_write.allowed_prefixes"),
        ({"allowed_prefixes": ["../x"]}, "workspace_write.allowed_prefixes[0]"),
        ({"allowed_prefixes": [""]}, "workspace_write.allowed_prefixes[0]"),
        ({"allowed_prefixes": False}, "workspace_write.allowed_prefixes"),
        ({"allowed_prefixes": ["out/"], "remove": 1}, "workspace_write.remove"),
        ({"allowed_prefixes": ["out/"], "max_bytes": MAX_WRITE_BYTES + 1}, "workspace_write.max_bytes"),
        ({"allowed_prefixes": ["out/"], "max_file_bytes": 0}, "workspace_write.max_file_bytes"),
        ({"allowed_prefixes": ["out/"], "max_files": 1.5}, "workspace_write.max_files"),
        ({"allowed_prefixes": ["out/"], "max_file": 1}, "workspace_write.max_file"),
    ],
)
def test_an_error_in_the_section_is_reported_with_its_path(section, place):
    assert place in mistakes({"workspace_write": section})


@pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_files": 10**9}, {"remove": "yes"}, {"max_file_bytes": True}])
def test_a_capability_created_in_python_has_the_same_bounds(wrong):
    with pytest.raises(ConfigurationError):
        WorkspaceWriteCapability(("out/",), **wrong)


@pytest.mark.parametrize("section", [True, {"allowed_prefixes": True, "remove": True}, {"allowed_prefixes": ["out/"]}])
def test_the_section_is_written_in_canonical_form(section):
    assert json.loads(format_file(read(section))) == {"workspace_write": section}


def test_a_denial_suggests_the_entry_that_would_allow_it():
    denied = Capabilities.none().explain_workspace_write("out/a.txt")
    assert denied.suggestion == Addition(WorkspaceWriteCapability.grant_list, '"out/"', new_section=True)
    assert denied.hint == 'add "workspace_write": {"allowed_prefixes": ["out/"]}'
    granted = read({"allowed_prefixes": ["notes/"], "max_bytes": 7})
    widened = granted.with_addition(granted.explain_workspace_write("out/a.txt").suggestion)
    assert widened.workspace_write == WorkspaceWriteCapability(("notes/", "out/"), max_bytes=7)


@pytest.mark.parametrize("name", IDENTITY)
@pytest.mark.parametrize(
    "spell",
    [
        str,
        str.upper,
        str.lower,
        lambda name: f"./{name}",
        lambda name: f"{name}.",
        lambda name: f"{name} ",
        lambda name: f"{name[:2]}\u200b{name[2:]}",
        lambda name: name.replace("S", "\uff33").replace("d", "\uff44").replace("t", "\uff54"),
    ],
)
def test_an_identity_file_is_protected_in_every_spelling(name, spell):
    for path in (spell(name), f"{spell(name)}/below.md"):
        denied = read(True).explain_workspace_write(path)
        assert denied.reason is Reason.PROTECTED_FILE and not isinstance(denied.suggestion, Addition), path


def test_identity_files_are_protected_everywhere_and_identity_folders_at_the_top():
    everything = read(True)
    assert everything.explain_workspace_write("notes/deep/agents.MD").reason is Reason.PROTECTED_FILE
    assert everything.explain_workspace_write("tools/x.capabilities.JSON").reason is Reason.PROTECTED_FILE
    for free in ("notes/daily/x.md", "notes/context/x.md", "contextual/x", "MY-AGENTS.md", "daily.md", "SOUL.mdx"):
        assert everything.explain_workspace_write(free).allowed, free


@given(st.sampled_from(IDENTITY), st.lists(st.sampled_from([".", "", "notes"]), max_size=3), st.booleans())
def test_no_indirect_path_reaches_an_identity_file(name, words, upper):
    words = [word for word in words if word != "notes" or name.endswith(".md")]
    path = "/".join([*words, name.upper() if upper else name]).lstrip("/")
    assert not read(True).explain_workspace_write(path).allowed


def test_effects_distinguish_writing_from_removing():
    writing, removing = read(True), read({"allowed_prefixes": True, "remove": True})
    assert effects_of(writing) == {Effect.WRITE_FILESYSTEM}
    assert effects_of(removing) == {Effect.WRITE_FILESYSTEM, Effect.DELETE_FILESYSTEM}
    assert effects_of(read({"allowed_prefixes": []})) == frozenset()
    assert within_effects(removing, frozenset({Effect.WRITE_FILESYSTEM})) == writing
    assert within_effects(removing, frozenset({Effect.DELETE_FILESYSTEM})).workspace_write is None


def test_a_call_with_network_effects_keeps_its_writing_requests():
    entry = EndpointPattern.host("a.org").with_methods("GET", "POST")
    grant = read(True).with_http([entry])
    kept = within_effects(grant, frozenset({Effect.NETWORK, Effect.EXTERNAL_WRITE}))
    assert kept == Capabilities.none().with_http([entry])
    held = within_effects(grant, frozenset({Effect.NETWORK}))
    assert held == Capabilities.none().with_http([entry.with_methods("GET")])


def test_a_tool_section_takes_its_numbers_from_the_component():
    whole = {"allowed_prefixes": ["out/"], "max_bytes": 1000, "remove": True}
    document = {
        "workspace_write": whole,
        "tools": {"a": {"workspace_write": {"allowed_prefixes": ["out/a/"]}}, "b": {}},
    }
    granted = Capabilities.parse(json.dumps(document))
    assert for_tool(granted, "a").workspace_write == WorkspaceWriteCapability(("out/a/",), max_bytes=1000)
    assert for_tool(granted, "b").workspace_write is None
    assert Capabilities.parse(format_file(granted)) == granted
    assert json.loads(format_file(granted)) == document


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"allowed_prefixes": ["other/"]}, "allowed_prefixes[0]"),
        ({"allowed_prefixes": True}, "allowed_prefixes[0]"),
        ({"allowed_prefixes": ["out/"], "max_files": 101}, "max_files"),
        ({"allowed_prefixes": ["out/"], "remove": True}, "remove"),
    ],
)
def test_a_wider_tool_section_is_an_error(more, place):
    document = {"workspace_write": {"allowed_prefixes": ["out/"]}, "tools": {"t": {"workspace_write": more}}}
    assert f"tools.t.workspace_write.{place}" in mistakes(document)


def test_explanation_and_diff_describe_writing():
    bounds = {"allowed_prefixes": ["out/"], "max_bytes": 1024, "max_file_bytes": 512}
    few = read(bounds | {"max_files": 1})
    *allowed, lacking, rest = explain(few)
    assert allowed == [
        "may write files under out/",
        "may write at most 1 KiB to 1 file in a call, each of at most 512 bytes",
        "may not write the agent's identity files, such as AGENTS.md, or capability files",
    ]
    others = [" ".join(kind.act) for kind in KINDS if kind is not WorkspaceWriteCapability]
    assert (lacking, rest) == (f"may not {join_words(others, 'or')}", "may not do anything else")
    more = read(
        {"allowed_prefixes": ["out/"], "max_files": 2, "max_bytes": 1024, "max_file_bytes": 512, "remove": True}
    )
    assert explain(more)[1].endswith("to 2 files in a call, each of at most 512 bytes, and remove existing files")
    changes = diff(few, more)
    assert [change.section for change in changes.widened] == ["workspace_write.remove", "workspace_write.max_files"]
    assert not changes.narrowed
    (first, *_) = diff(Capabilities.none(), few).widened
    assert (first.section, first.sentence) == ("workspace_write.allowed_prefixes", "may write files under out/")


def test_a_review_warns_about_wide_and_unused_write_sections():
    wide = parse('{"workspace_write": {"allowed_prefixes": true, "remove": true}}')
    told = {warning.path for warning in review(wide, ["wasi:filesystem/preopens@0.2.0"])}
    assert told == {"workspace_write", "workspace_write.remove"}
    unused = review(parse('{"workspace_write": {"allowed_prefixes": ["out/"]}}'), ["wasi:clocks/wall-clock@0.2.0"])
    assert [(warning.path, "lacks an import" in warning.message) for warning in unused] == [("workspace_write", True)]
    empty = review(parse('{"workspace_write": {"allowed_prefixes": []}, "http": {"allowlist": []}}'))
    assert {warning.path: warning.message.split()[:5] for warning in empty} == {
        "http.allowlist": ["an", "empty", "list", "allows", "no"],
        "workspace_write.allowed_prefixes": ["an", "empty", "list", "allows", "nothing;"],
    }


def test_a_call_with_folders_only_writes_below_them_and_gains_no_permission():
    grant = Capabilities.none().with_workspace_write(["out/", "tmp/"])

    narrowed = within_write_paths(grant, ["out/today/", "elsewhere/"]).workspace_write

    assert narrowed is not None and narrowed.allowed_prefixes == ("out/today/",)
    assert within_write_paths(Capabilities.none(), ["out/"]) == Capabilities.none()


def test_denied_writes_are_proposed_as_the_narrowest_folders():
    denied = [Capabilities.none().explain_workspace_write(path) for path in ("out/a/b.md", "out/a/c.md", "out/d.md")]

    proposed = with_fewest_entries(Capabilities.none(), find_missing_entries(denied))

    assert all(proposed.explain_workspace_write(path).allowed for path in ("out/a/b.md", "out/d.md"))
    assert proposed.workspace_read is None

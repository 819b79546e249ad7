"""Every user has a separate folder, whatever their name."""

import re
from urllib.parse import unquote

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.runtime.workspace import UserFolders, folder_name

USERS = st.one_of(
    st.text(),
    st.text(alphabet=st.characters(min_codepoint=0xD7FE, max_codepoint=0xE001)),  # surrogates
    st.text(alphabet="aA%~.4/", max_size=6),
    st.text(alphabet="Vv%~", min_size=38, max_size=150),
)


@given(one=USERS, other=USERS)
def test_no_two_users_share_a_folder(one, other):
    assert (folder_name(one).casefold() == folder_name(other).casefold()) == (one == other)


@given(user=USERS)
def test_no_username_equals_another_users_folder_name(user):
    folder = folder_name(user)
    assert re.fullmatch(r"[a-z0-9_%~-]{1,120}", folder)
    for called in (folder, unquote(folder), folder.upper(), unquote(folder.replace("~", "%"), "latin-1")):
        assert called == user or folder_name(called) != folder


def test_shortened_names_do_not_collide_with_escaped_names():
    long = ("V" * 45 + str(number) for number in range(1000))
    pairs = ((user, "V" * 20 + chr(int(tail[:2], 16)) + tail[2:]) for user in long for tail in [_tail(user)])
    for one, other in pairs:
        assert folder_name(one) != folder_name(other)


def _tail(user):
    return blake3(user.encode()).hexdigest()[:32]


@pytest.mark.parametrize(
    "user", ["\ud800", "a\udcff" * 40, "", "V" * 1000], ids=["surrogate", "surrogates", "nobody", "long"]
)
def test_every_username_has_a_folder(user, tmp_path):
    folder = UserFolders(tmp_path)(user)
    assert folder.is_dir() and folder.parent == tmp_path

"""Normal forms of long texts are exact, and take linear time."""

from __future__ import annotations

import time
import unicodedata
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core import normal_form
from wasmrt.core.normal_form import normalize

Form = Literal["NFC", "NFKC", "NFD", "NFKD"]
ODD = "e\u0301\u0323\u0344\u0345\u0f73\u0f81\u1100\u1161\u11a8\uac00\uff76\uff9e\u09c7\u09be\u0b47\u0b56\ufdfa\u0130 "
characters = st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"])


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "NFKD"])
@given(st.text(characters, min_size=5, max_size=40))
@settings(max_examples=examples(300), deadline=None)
def test_a_text_in_pieces_has_the_normal_form_of_the_whole(form: Form, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normal_form, "_PIECE", 1)
        patch.setattr(normal_form, "_MAX_PIECE", 41)
        repeated = (text + "x") * 6
        assert normalize(form, repeated) == unicodedata.normalize(form, repeated)


@pytest.mark.ci("slow")
def test_a_piece_ends_before_every_kind_of_second_character() -> None:
    wrong = [
        f"{code:x}"
        for code in range(0x80, 0x110000)
        if not 0xD800 <= code < 0xE000
        and normal_form._compile_starters().match(chr(code))
        and unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0])
    ]
    assert wrong == []


def test_many_combining_characters_take_linear_time() -> None:
    text = "a" + "\u0301\u0323" * 50_000
    started = time.thread_time()
    normalize("NFC", text)
    assert time.thread_time() - started < 1.5  # 10 s in one piece

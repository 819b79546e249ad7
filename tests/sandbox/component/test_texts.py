"""Texts that a guest printed: the part of them that is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wasmrt.sandbox.component import last_lines


@given(st.text(alphabet="ab \n\r"), st.integers(0, 20))
def test_last_lines_returns_the_lines_that_fit_and_at_least_one(text: str, limit: int) -> None:
    lines, kept = text.strip().splitlines(), last_lines(text, limit).split("\n")
    if not lines:
        assert kept == [""]
        return
    assert kept == lines[-len(kept) :]
    assert len(kept) == 1 or len("\n".join(kept)) <= limit
    assert len(kept) == len(lines) or len("\n".join(lines[-len(kept) - 1 :])) > limit


def test_last_lines_takes_linear_time() -> None:
    # Quadratic, this would take hours; the suite's own time limit ends it.
    text = "first" + "\n" * 1_000_000 + "last"
    assert last_lines(text, len(text)) == text

"""Full-text, vector and hybrid search, with known answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.memory.embedder import LetterRuns
from tests.postgres_server import Place
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory._search import CHUNK_CHARS, Scored, fuse_scores, split_into_chunks
from wasmrt.runtime.memory import MemorySettings

NOTES = {
    "people/ann.md": "Ann is the physician of the family. Her practice: Goethestrasse 12, appointments on Mondays.",
    "people/bob.md": "Bob's partner is called Clara. They have an animal named Rex that barks at couriers.",
    "home/vehicle.md": "The vehicle needs new tyres in October. Garage: Meier, invoice RX-4471.",
    "home/allergy.md": "Allergy: no peanuts, no shellfish. The pills are in the kitchen cupboard.",
    "work/budget.md": "The budget of the team is 48,000 for the second quarter; Priya approves it.",
    "work/release.md": "The release of version 3.2 is on the 14th. Staging first, then production. Ticket QX-118.",
    "work/defect.md": "The defect in the importer comes from time zones; see ticket QX-205.",
    "work/meetings.md": "Standup is at 9:15. The retrospective is every second Thursday in room Aurora.",
    "travel/vacation.md": "The vacation is in Lisbon from the 3rd to the 17th of August; hotel Ribeira.",
    "travel/passport.md": "The passport expires in March 2027. The renewal takes six weeks.",
    "cooking/food.md": "Food for Sunday: lentil soup, bread, rhubarb cake. Clara brings wine.",
    "books.md": "Finished reading: The Left Hand of Darkness. Next: Roadside Picnic.",
}
QUESTIONS = {  # exact words, codes, synonyms, misspellings
    "Goethestrasse": "people/ann.md",
    "RX-4471": "home/vehicle.md",
    "ticket QX-118": "work/release.md",
    "ticket QX-205": "work/defect.md",
    "who approves 48,000": "work/budget.md",
    "room Aurora": "work/meetings.md",
    "hotel Ribeira": "travel/vacation.md",
    "Roadside Picnic": "books.md",
    "doctor appointment": "people/ann.md",
    "wife of Bob": "people/bob.md",
    "dog": "people/bob.md",
    "automobile": "home/vehicle.md",
    "intolerance": "home/allergy.md",
    "funds for the quarter": "work/budget.md",
    "when do we ship": "work/release.md",
    "holiday": "travel/vacation.md",
    "dinner on Sunday": "cooking/food.md",
    "retrospectve thursdy": "work/meetings.md",
    "pasport renewl": "travel/passport.md",
    "shelfish": "home/allergy.md",
}


def fill(store: MemoryStore) -> MemoryStore:
    for path, text in NOTES.items():
        store.write("ann", path, text)
    return store


def quality(find: Callable[[str], Sequence[str]]) -> float:
    """Return the mean reciprocal rank among the first five results."""
    total = 0.0
    for question, path in QUESTIONS.items():
        found = list(dict.fromkeys(find(question)))[:5]
        total += 1 / (found.index(path) + 1) if path in found else 0.0
    return total / len(QUESTIONS)


def test_hybrid_search_is_at_least_as_good_as_words_or_vectors_alone(store: MemoryStore, place: Place) -> None:
    embedder = LetterRuns()
    words, both = fill(store), MemoryStore(MemorySettings(embedder=embedder), place)

    def by_vectors(question: str) -> list[str]:
        (wanted,), texts = embedder.embed([question]), embedder.embed(list(NOTES.values()))
        size = {path: sum(a * a for a in text) ** 0.5 for path, text in zip(NOTES, texts, strict=True)}
        near = {
            path: sum(a * b for a, b in zip(wanted, text, strict=True)) / size[path]
            for path, text in zip(NOTES, texts, strict=True)
        }
        return [path for path in sorted(near, key=lambda path: -near[path]) if near[path] > 0]

    by_words = quality(lambda question: [hit.path for hit in words.search("ann", question).hits])
    vectors = quality(by_vectors)
    hybrid = quality(lambda question: [hit.path for hit in both.search("ann", question).hits])
    assert by_words < 0.8 and vectors < 1.0  # otherwise hybrid search could not improve on them
    assert hybrid >= max(by_words, vectors)


def test_search_without_an_embedder_reports_full_text(store: MemoryStore) -> None:
    found = fill(store).search("ann", "Roadside Picnic")
    assert (found.hits[0].path, found.hits[0].found_by, found.hits[0].score) == ("books.md", ("text",), 1.0)
    assert (found.search, found.note) == ("full-text", "")
    assert store.search("unknown", "anything").hits == ()


def test_hit_names_the_kinds_of_search_and_the_best_scores_one(place: Place) -> None:
    store = fill(MemoryStore(MemorySettings(embedder=LetterRuns()), place))
    best = store.search("ann", "Finished reading the Left Hand of Darkness").hits[0]
    assert (best.path, best.score, best.found_by) == ("books.md", 1.0, ("text", "vector"))
    assert store.search("ann", "automobile").search == "hybrid"


def test_search_matches_word_forms_diacritics_case_and_unspaced_scripts(store: MemoryStore) -> None:
    store.write("ann", "a.md", "We decided on the Müller proposal, deploying from Zürich.")
    store.write("ann", "b.md", "明日は東京で会議があります。")
    store.write("ann", "c.md", "회의는 금요일에 있습니다")
    for question, path in [
        ("muller", "a.md"), ("DEPLOYED", "a.md"), ("ＺＵＲＩＣＨ", "a.md"), ("proposals", "a.md"),
        ("東京", "b.md"), ("会議", "b.md"), ("금요일", "c.md"),
    ]:  # fmt: skip
        assert [hit.path for hit in store.search("ann", question).hits] == [path], question
    assert store.search("ann", "京東").hits == ()


def test_search_matches_the_path_and_only_the_current_content(store: MemoryStore) -> None:
    store.write("ann", "projects/zeppelin.md", "first words")
    store.write("ann", "projects/zeppelin.md", "second words", append=False)
    assert [hit.content for hit in store.search("ann", "zeppelin").hits] == ["second words"]
    assert store.search("ann", "first").hits == ()


def test_search_returns_chunks_of_a_long_document(store: MemoryStore) -> None:
    text = "\n\n".join(f"Paragraph {n} is about subject{n}. " + "filler words here. " * 30 for n in range(40))
    store.write("ann", "long.md", text)
    for n in (0, 17, 39):
        hit = store.search("ann", f"subject{n}", limit=1).hits[0]
        assert f"subject{n}." in hit.content and len(hit.content) <= CHUNK_CHARS


@pytest.mark.ci("slow")
@given(st.text(max_size=6000) | st.text(alphabet="ab \n.", min_size=1500, max_size=9000))
def test_chunks_cover_all_text_except_spaces_and_are_bounded(text: str) -> None:
    found, end = list(split_into_chunks(text)), 0
    for start, length in found:
        assert start <= end or not text[end:start].strip()
        assert 0 < length <= CHUNK_CHARS and start + length > end
        end = start + length
    assert not text[end:].strip()
    assert len(found) <= len(text) // (CHUNK_CHARS // 4) + 1


RANKING = st.dictionaries(st.integers(0, 30), st.floats(0.01, 100), max_size=20)


@given(st.lists(RANKING, min_size=1, max_size=3))
def test_fusion_scores_by_the_mean_of_relative_scores(rankings: list[dict[int, float]]) -> None:
    ordered = [sorted(map(Scored._make, ranking.items()), key=lambda each: -each.score) for ranking in rankings]
    found = dict(fuse_scores(ordered))
    for chunk, score in found.items():
        parts = [ranking[chunk] / max(ranking.values()) for ranking in rankings if chunk in ranking]
        assert score == pytest.approx(sum(parts) / len(rankings))
    assert found.keys() == {chunk for ranking in rankings for chunk in ranking}
    assert list(found.values()) == sorted(found.values(), reverse=True)


class Broken:
    name = "broken"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    "answer",
    [RuntimeError("no"), None, [], [[]], [[1.0], [2.0]], [[float("nan")]], [[float("inf")]], ["x"], [[1.0] * 5000], 7],
    ids=str,
)
def test_failing_embedder_loses_vectors_but_no_text(place: Place, answer: object) -> None:
    store = MemoryStore(MemorySettings(embedder=Broken(answer)), place)
    store.write("ann", "a.md", "the words are kept")
    found = store.search("ann", "words")
    assert [hit.path for hit in found.hits] == ["a.md"]
    assert found.search == "full-text" and "embedder" in found.note


def test_vectors_of_a_different_embedder_are_recomputed(place: Place) -> None:
    fill(MemoryStore(MemorySettings(embedder=LetterRuns()), place)).search("ann", "dog")

    class Other(LetterRuns):
        name = "other"

    other = Other()
    store = MemoryStore(MemorySettings(embedder=other), place)
    assert store.search("ann", "dog").hits[0].path == "people/bob.md"
    before = other.calls
    store.search("ann", "dog")
    assert other.calls == before + 1  # only the question was embedded

"""Settings of an agent's memory, and the embedders it can use. The memory is in `wasmrt.agent.builtin.memory`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_MEMORY_BYTES, MAX_MEMORY_DOCUMENT_BYTES, MAX_MEMORY_VERSIONS

_DIMENSIONS = 256
_HIGHEST = {"max_document_bytes": 2**24, "max_user_bytes": 2**36, "max_versions": 100_000}


@runtime_checkable
class Embedder(Protocol):
    """Computes a vector for each text, so that texts with similar meanings have similar vectors.

    An embedder must be thread-safe. It receives all remembered text; an embedder that calls a service therefore sends
    all remembered text to that service.
    """

    @property
    def name(self) -> str:
        """Name and version of the model. Vectors of different models are never compared."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text; all vectors must have the same length."""


class WordLlamaEmbedder:
    """Computes vectors in this process from a table of token vectors. This is fast, and works best for English.

    The weights are in the wheel of wordllama, and nothing is downloaded. The first text loads the model, which takes
    about a second.

    Raises:
        ConfigurationError: wordllama is not installed.
    """

    name = f"wordllama-l2-supercat-{_DIMENSIONS}"

    def __init__(self) -> None:
        if find_spec("wordllama") is None:
            raise ConfigurationError("wordllama is not installed", hint='pip install "wasmrt[embeddings]"')
        self._lock = threading.Lock()
        self._model: Any = None

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        with self._lock:
            if self._model is None:
                self._model = _load_wordllama()
            found: list[list[float]] = self._model.embed(list(texts)).tolist()
            return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """The operator's settings for the memory of agents.

    Raises:
        ConfigurationError: a number is out of range, or the embedder is invalid.

    Examples:
        >>> from wasmrt import MemorySettings, WasmRuntimeConfig
        >>> WasmRuntimeConfig(memory=MemorySettings(max_versions=10)).memory.max_versions
        10
    """

    path: Path | None = None
    """The folder of the databases, one for each user; None for the default in the data folder."""
    max_document_bytes: int = MAX_MEMORY_DOCUMENT_BYTES
    max_user_bytes: int = MAX_MEMORY_BYTES
    """Maximum size of one user's documents, including earlier versions."""
    max_versions: int = MAX_MEMORY_VERSIONS
    """Number of earlier versions that are stored for each document."""
    embedder: Embedder | None = None
    """Computes vectors of texts; None to search by words only."""

    def __post_init__(self) -> None:
        for name, highest in _HIGHEST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= highest:
                raise ConfigurationError(f"{name} must be a whole number from 1 to {highest:,}")
        given: object = self.embedder
        if given is not None and not isinstance(given, Embedder):
            hint = "an embedder has the attributes `name` and `embed`; see wasmrt.Embedder"
            raise ConfigurationError(f"expected an embedder, got {given!r:.80}", hint=hint)


def _load_wordllama() -> Any:
    import wordllama

    # The package folder is passed as the cache, because the wheel has the weights and the tokenizer there.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(dim=_DIMENSIONS, cache_dir=folder, disable_download=True)

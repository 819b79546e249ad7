"""An embedder of this machine: WordLlama's 256 dimensions for each token, whose weights are in its wheel."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError

_DIMENSIONS = 256


class WordLlamaEmbedder:
    """Vectors of texts from a table of token vectors: fast, in this process, of English above all.

    Nothing is fetched: what is not in the wheel is an error. The model is loaded with the first text, which takes about
    a second.

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
                self._model = _load()
            found: list[list[float]] = self._model.embed(list(texts)).tolist()
            return found


def _load() -> Any:
    import wordllama

    # The folder of the package stands for its cache: there lie the weights and the tokenizer of the wheel.
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(dim=_DIMENSIONS, cache_dir=folder, disable_download=True)

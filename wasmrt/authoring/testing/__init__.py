"""Public fakes, for our tests and for those of tools and agents. wasmrt itself imports nothing from here."""

from wasmrt.authoring.testing._net import FakeCall, FakeResolver
from wasmrt.authoring.testing._secrets import MemorySecrets
from wasmrt.authoring.testing._server import ReceivedRequest, ScriptedServer, ServerConnection, http_response

__all__ = [
    "FakeCall",
    "FakeResolver",
    "MemorySecrets",
    "ReceivedRequest",
    "ScriptedServer",
    "ServerConnection",
    "http_response",
]

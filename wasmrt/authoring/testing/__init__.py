"""Public fakes for the tests of wasmrt, tools and agents. Only tests and `wasmrt doctor --attack` use them."""

from wasmrt.authoring.testing._fakes import FakeCall, FakeResolver, FakeVault, MemorySecrets
from wasmrt.authoring.testing._server import ReceivedRequest, ScriptedServer, ServerConnection, http_response

__all__ = [
    "FakeCall",
    "FakeResolver",
    "FakeVault",
    "MemorySecrets",
    "ReceivedRequest",
    "ScriptedServer",
    "ServerConnection",
    "http_response",
]

"""The TypeScript client libraries and the official Inspector against `wasmrt serve`, in each era."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.first_party.names import SERVED
from tests.interop.mcp_peers.fixtures import NodePeers
from tests.interop.mcp_server.processes import WASMRT

_START = """
const server = {command: process.argv[2], args: ["-m", "wasmrt", "serve"], env: {WASMRT_HOME: process.env.WASMRT_HOME}};
const show = async (client) => {
  const listed = (await client.listTools()).tools.map((tool) => tool.name);
  const result = await client.callTool({name: "echo", arguments: {message: "hi"}});
  console.log(JSON.stringify({listed, text: result.content[0].text, structured: result.structuredContent}));
  await client.close();
};
"""
SDK = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const client = new Client({name: "test", version: "1"}, {capabilities: {}});
"""
CLIENT = """
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
const client = new Client({name: "test", version: "1"}, {capabilities: {}, versionNegotiation: {mode: "MODE"}});
"""
SCRIPTS = {
    "sdk": SDK,
    "client, legacy": CLIENT.replace("MODE", "legacy"),
    "client, auto": CLIENT.replace("MODE", "auto"),
}

pytestmark = pytest.mark.usefixtures("unmeasured")


@pytest.mark.parametrize("library", SCRIPTS)
def test_a_typescript_client_lists_and_calls(home: Path, node_peers: NodePeers, tmp_path: Path, library: str) -> None:
    (tmp_path / "node_modules").symlink_to(node_peers.modules)
    script = tmp_path / "client.mjs"
    end = "await client.connect(new StdioClientTransport(server));\nawait show(client);\n"
    script.write_text(SCRIPTS[library] + _START + end)
    done = subprocess.run(
        [str(node_peers.node), str(script), sys.executable], capture_output=True, timeout=60, check=True
    )
    said = json.loads(done.stdout)
    assert (said["listed"], said["text"]) == (SERVED, "hi")
    assert said["structured"] == ("hi" if library == "client, auto" else {"result": "hi"})


@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
def test_the_inspector_calls_a_tool(home: Path, node_peers: NodePeers, era: str) -> None:
    options = ["--format", "json", "-q", "--protocol-era", era, "--method", "tools/call", "--tool-name", "echo"]
    command = [*node_peers.command(".bin/mcp-inspector"), "--cli", *options]
    command += ["--tool-args-json", '{"message":"hi"}', *WASMRT, "serve"]
    environ = os.environ | {"PATH": f"{node_peers.node.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, env=environ, capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout)["result"]["content"] == [{"type": "text", "text": "hi"}]

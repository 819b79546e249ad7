"""A package registry on the loopback network that speaks the protocols of npm and PyPI, and packages with servers."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PYTHON = """
import json, socket, sys

def call(port):
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
        return "reached"
    except OSError:
        return "no network"

def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("method") == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "tiny", "version": "VERSION"}}
        elif asked.get("method") == "tools/list":
            schema = {"type": "object", "properties": {"port": {"type": "integer"}}}
            result = {"tools": [{"name": "dial", "description": "Dials, VERSION.", "inputSchema": schema,
                                 "annotations": {"readOnlyHint": True}}]}
        elif asked.get("method") == "tools/call":
            result = {"content": [{"type": "text", "text": call(asked["params"]["arguments"]["port"])}]}
        else:
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
_NODE = """#!/usr/bin/env node
const answers = {
  initialize: () => ({ protocolVersion: "2025-11-25", capabilities: { tools: {} },
                       serverInfo: { name: "tiny", version: "VERSION" } }),
  "tools/list": () => ({ tools: [{ name: "echo", description: "Echoes.", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: process.argv.slice(2).join(" ") }] }),
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const asked = JSON.parse(line);
  if (!(asked.method in answers)) return;
  console.log(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: answers[asked.method]() }));
});
"""


def wheel(name: str, version: str, more: dict[str, str] | None = None) -> bytes:
    """Return a wheel whose program `name` is an MCP server."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}.py": _PYTHON.replace("VERSION", version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
        **(more or {}),
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return data.getvalue()


def tarball(name: str, version: str, **manifest: object) -> bytes:
    """Return a package of npm whose program is an MCP server."""
    package = {"name": name, "version": version, "bin": "server.js"} | manifest
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, text in {"package.json": json.dumps(package), "server.js": _NODE.replace("VERSION", version)}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


class PackageRegistry:
    """The served packages."""

    def __init__(self) -> None:
        self.wheels: dict[str, bytes] = {}
        self.tarballs: dict[tuple[str, str], tuple[bytes, dict[str, object]]] = {}
        self.port = 0

    def add_wheel(self, name: str, version: str, more: dict[str, str] | None = None) -> None:
        self.wheels[f"{name.replace('-', '_')}-{version}-py3-none-any.whl"] = wheel(name, version, more)

    def add_tarball(self, name: str, version: str, **manifest: object) -> None:
        self.tarballs[name, version] = tarball(name, version, **manifest), manifest

    def answer(self, path: str) -> bytes | None:
        name = path.rpartition("/")[2]
        if path.startswith("/simple/"):
            wanted = path.removeprefix("/simple/").strip("/").replace("-", "_")
            names = [file for file in self.wheels if file.startswith(f"{wanted}-")]
            links = [
                f'<a href="/wheels/{n}#sha256={hashlib.sha256(self.wheels[n]).hexdigest()}">{n}</a>' for n in names
            ]
            return "<br>".join(links).encode() if names else None
        if path.startswith("/wheels/"):
            return self.wheels.get(name)
        if path.startswith("/tarballs/"):
            package, _, version = name.removesuffix(".tgz").rpartition("@")
            return self.tarballs[package, version][0]
        return self._packument(path.strip("/"))

    def _packument(self, name: str) -> bytes | None:
        versions = {
            version: {
                "name": name, "version": version, "bin": "server.js", **manifest,
                "dist": {
                    "tarball": f"http://127.0.0.1:{self.port}/tarballs/{name}@{version}.tgz",
                    "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode(),
                },
            }
            for (package, version), (data, manifest) in self.tarballs.items()
            if package == name
        }  # fmt: skip
        if not versions:
            return None
        return json.dumps({"name": name, "versions": versions, "dist-tags": {"latest": list(versions)[-1]}}).encode()


@contextmanager
def serving() -> Iterator[PackageRegistry]:
    """Serve a registry on a free port."""
    registry = PackageRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = registry.answer(self.path)
            self.send_response(404 if body is None else 200)
            kind = "text/html" if self.path.startswith("/simple/") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()

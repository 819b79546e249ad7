// The same guest as rust/near-agent, for QuickJS and for StarlingMonkey.
import * as host from "near:agent/host@0.3.0";

const SCHEMA = {
  type: "object",
  properties: { op: { type: "string" }, arg: { type: "string" } },
};

let calls = 0;

// TextDecoder is not in every engine.
const text = (bytes) => decodeURIComponent(Array.from(bytes, (byte) => "%" + byte.toString(16).padStart(2, "0")).join(""));

// A host function that failed throws its error, wrapped or bare.
const reason = (error) => {
  const payload = error !== null && typeof error === "object" && "payload" in error ? error.payload : error;
  return typeof payload === "string" ? payload : String(payload?.message ?? payload);
};

const operations = {
  now: () => ({ now: Number(host.nowMillis()) }),
  workspace: (path) => ({ text: host.workspaceRead(path) ?? null }),
  http: (url) => {
    const response = host.httpRequest("GET", url, '{"accept": "*/*"}', undefined, 5000);
    return { status: response.status, headers: JSON.parse(response.headersJson), body: text(response.body) };
  },
  invoke: (alias) => JSON.parse(host.toolInvoke(alias, "{}")),
  secret: (name) => host.secretExists(name),
  log: (message) => {
    for (const level of ["trace", "debug", "info", "warn", "error"]) host.log(level, message);
    return null;
  },
  fail: (message) => {
    throw message;
  },
  count: () => ++calls,
  spin: () => {
    for (;;);
  },
  grow: () => {
    const kept = [];
    for (;;) kept.push(new Uint8Array(1 << 20).fill(1));
  },
  recurse: (arg) => operations.recurse(arg) + 1,
  big: (size) => "x".repeat(Number(size)),
};

const run = (params, context) => {
  const { op = "", arg = "" } = JSON.parse(params);
  if (op === "" || op === "echo") return params;
  if (op === "context") return context ?? "null";
  if (op === "invalid") return "this is not JSON";
  if (!Object.hasOwn(operations, op)) throw `no operation ${op}`;
  return JSON.stringify(operations[op](arg));
};

export const tool = {
  execute({ params, context }) {
    try {
      return { output: run(params, context) };
    } catch (error) {
      return { error: reason(error) };
    }
  },
  schema: () => JSON.stringify(SCHEMA),
  description: () => "Does on request what a test wants to see.",
};

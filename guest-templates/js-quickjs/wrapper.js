// Call the functions of tool.js, and report an uncaught exception or a result of a wrong type, with its line.
// `wasmrt build` fills in the exported functions with their types, and compiles this module. Because only functions with
// an error type can return a failure, failures are written as a line of JSON.

import { numbersAre64Bit, writeError } from "./output.js";
import * as tool from "{{source}}";

const SOURCE = JSON.parse("{{text}}");
const TYPES = JSON.parse("{{types}}");
const MAX_CHARACTERS = 800;
const MAX_FRAMES = 20;
const ADVICE = "a tool has no files or sockets; use the imports wasmrt:tool/workspace and wasmrt:tool/http";
const UNAVAILABLE = /\b(?:require|process|Deno|Bun|fs|fetch|XMLHttpRequest|WebSocket|setTimeout|setInterval)\b/;

// Finds `return`; the other alternatives skip comments and strings.
const RETURNS = /\/\/.*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\[^]|[^`\\])*`|\breturn\b/g;

class WrongType extends Error {}

// Return the definition of a type: the name of a primitive type, or an object with one key.
const definition = (ref) => {
  while (typeof ref === "number") {
    const { kind } = TYPES[ref];
    ref = kind?.type ?? kind;
  }
  return ref;
};

const shown = (value) => {
  if (value === null || value === undefined) return String(value);
  const type = Array.isArray(value) ? "array" : typeof value;
  return ["string", "number", "bigint", "boolean"].includes(type) ? `${type} ${String(value).slice(0, 40)}` : type;
};

const fail = (expected, value, at) => {
  throw new WrongType(`expected ${expected}, got ${shown(value)}${at && ` at ${at.replace(/^\./, "")}`}`);
};

const camelCase = (name) => name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase());

const checkPrimitive = (kind, value, at) => {
  const integer = /^([us])(\d+)$/.exec(kind);
  if (integer) {
    const bits = Number(integer[2]);
    const isLarge = bits === 64 && typeof value === "bigint";
    if (!isLarge && !(Number.isInteger(value) && (bits < 64 || numbersAre64Bit))) {
      fail(bits < 64 || numbersAre64Bit ? kind : `${kind} (a BigInt)`, value, at);
    }
    const [low, high] = integer[1] === "u" ? [0n, 2n ** BigInt(bits) - 1n] : [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n];
    if (BigInt(value) < low || BigInt(value) > high) fail(`${kind} from ${low} to ${high}`, value, at);
  } else if (kind === "f32" || kind === "f64") {
    if (typeof value !== "number") fail(`${kind} (a number)`, value, at);
  } else if (kind === "bool") {
    if (typeof value !== "boolean") fail("bool", value, at);
  } else if (kind === "string" || kind === "char") {
    if (typeof value !== "string" || (kind === "char" && [...value].length !== 1)) fail(kind, value, at);
  }
};

// Compare a value with its WIT type. Values of types that are not compared here, such as resources, are accepted.
const check = (ref, value, at) => {
  const kind = definition(ref);
  if (typeof kind === "string") return checkPrimitive(kind, value, at);
  const [form, detail] = Object.entries(kind ?? { unknown: null })[0];
  const name = (typeof ref === "number" && TYPES[ref].name) || form;
  const isObject = typeof value === "object" && value !== null;
  if (form === "record") {
    const fields = detail.fields.map((field) => field.name);
    if (!isObject || Array.isArray(value)) fail(`${name} with ${fields.map(camelCase).join(", ")}`, value, at);
    for (const field of detail.fields) check(field.type, value[camelCase(field.name)], `${at}.${camelCase(field.name)}`);
  } else if (form === "list") {
    if (!Array.isArray(value) && !ArrayBuffer.isView(value)) fail("list", value, at);
    if (Array.isArray(value)) value.forEach((item, index) => check(detail, item, `${at}[${index}]`));
  } else if (form === "tuple") {
    if (!Array.isArray(value) || value.length !== detail.types.length) fail(`tuple of ${detail.types.length}`, value, at);
    detail.types.forEach((type, index) => check(type, value[index], `${at}[${index}]`));
  } else if (form === "option") {
    if (value !== undefined && value !== null && definition(detail)?.option === undefined) check(detail, value, at);
  } else if (form === "enum") {
    const cases = detail.cases.map((known) => known.name);
    if (!cases.includes(value)) fail(`${name}, one of ${cases.join(", ")}`, value, at);
  } else if (form === "variant") {
    const cases = detail.cases.map((known) => known.name);
    if (!cases.includes(value?.tag)) fail(`${name}, an object with a tag of ${cases.join(", ")}`, value, at);
  }
};

const fits = (ref, value) => {
  try {
    check(ref, value, "");
    return true;
  } catch {
    return false;
  }
};

// Return the place of an error in the tool's source.
const place = (error) => {
  for (const line of String(error?.stack ?? "").split("\n")) {
    const found = /^\s*(?:at )?([^\s@(]*)[@ (]*\/?([^\s()]+?):(\d+):\d+\)?$/.exec(line);
    if (found && !found[2].includes("_wrapper/")) return ` (${found[2]}, line ${found[3]}${found[1] && `, in ${found[1]}`})`;
  }
  return "";
};

// Return the lines of the tool's source where a function may return its result.
const returnPlace = (function_) => {
  const text = String(function_);
  const start = SOURCE.indexOf(text);
  if (start < 0) return " ({{edit}})";
  const returns = [...text.matchAll(RETURNS)].filter((found) => found[0] === "return").map((found) => found.index);
  const lines = (returns.length ? returns : [0]).map((at) => SOURCE.slice(0, start + at).split("\n").length);
  const known = [...new Set(lines)];
  const shown = known.length === 1 ? "line" : "one of the lines";
  return ` ({{edit}}, ${shown} ${known.slice(0, 9).join(", ")}, in ${function_.name})`;
};

const writeTrace = (error) => {
  const lines = String(error.stack ?? "").split("\n").filter((line) => line.trim() && !line.includes("_wrapper/"));
  for (const line of [String(error), ...lines.slice(0, MAX_FRAMES)]) writeError(line.slice(0, MAX_CHARACTERS));
};

const describe = (error, thrown, name, function_) => {
  const crashed = { kind: "operation-failed", code: "crashed" };
  if (thrown instanceof WrongType) {
    return { ...crashed, message: `${name} returned a wrong type: ${thrown.message}${returnPlace(function_)}` };
  }
  if (typeof thrown?.kind === "string" && typeof thrown.message === "string") {
    return { kind: thrown.kind, code: thrown.code ?? null, message: thrown.message };
  }
  const text = (thrown instanceof Error ? String(thrown) : `uncaught ${shown(thrown)}`).slice(0, MAX_CHARACTERS);
  const message = text + place(error);
  if (/out of memory|allocation size overflow/.test(text)) return { kind: "executor", code: "out-of-memory", message };
  const isUnavailable = thrown instanceof ReferenceError && UNAVAILABLE.test(text);
  return { ...crashed, message: isUnavailable ? `${message}; ${ADVICE}` : message };
};

const wrap = (name, result, owner, key) => (...params) => {
  const outcome = definition(result)?.result;
  const checked = (value) => {
    const type = outcome ? outcome.ok : result;
    if (type !== undefined && type !== null) check(type, value, "");
    return value;
  };
  const failed = (error) => {
    const thrown = error?.payload ?? error;
    if (outcome && (outcome.err === null ? thrown === undefined : fits(outcome.err, thrown))) throw thrown;
    if (thrown instanceof Error && !(thrown instanceof WrongType)) writeTrace(thrown);
    writeError(JSON.stringify({ "wasmrt-failure": describe(error, thrown, name, owner[key]) }));
    throw error;
  };
  try {
    const value = owner[key](...params);
    return typeof value?.then === "function" ? value.then(checked).catch(failed) : checked(value);
  } catch (error) {
    return failed(error);
  }
};

const wrapInterface = (name, functions) => {
  const owner = tool[camelCase(name)];
  if (owner === undefined) throw new Error(`{{edit}} does not export ${camelCase(name)}`);
  return Object.fromEntries(
    Object.entries(functions).map(([function_, result]) => {
      const key = camelCase(function_);
      if (typeof owner[key] !== "function") throw new Error(`${camelCase(name)} of {{edit}} has no function ${key}`);
      return [key, wrap(`${name}.${function_}`, result, owner, key)];
    }),
  );
};

const wrapFunction = (name, result) => {
  const key = camelCase(name);
  if (typeof tool[key] !== "function") throw new Error(`{{edit}} does not export a function ${key}`);
  return wrap(name, result, tool, key);
};

{{bindings}}

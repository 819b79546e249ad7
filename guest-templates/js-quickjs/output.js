// Provide what QuickJS lacks: a console, which writes to the call's log, and random numbers that differ between calls.

import { getRandomU64 } from "wasi:random/random@0.2.0";
import { log } from "wasmrt:tool/log@0.1.0";

const format = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ""}`.trimEnd();
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};

const method = (level) => (...values) => log(level, values.map(format).join(" "));

globalThis.console = {
  debug: method("debug"),
  log: method("info"),
  info: method("info"),
  warn: method("warn"),
  error: method("error"),
};

// The generator sfc32 of Chris Doty-Humphrey. QuickJS's own is seeded during the build, so it would repeat in each call.
let state;
const next = () => {
  let [a, b, c, count] = state;
  const sum = (a + b + count) | 0;
  state = [b ^ (b >>> 9), (c + (c << 3)) | 0, (((c << 21) | (c >>> 11)) + sum) | 0, (count + 1) | 0];
  return sum >>> 0;
};
Math.random = () => {
  if (state === undefined) {
    const seed = () => Number(BigInt(getRandomU64()) >> 32n) | 0;
    state = [seed(), seed(), seed(), 1];
    for (let round = 0; round < 12; round++) next();
  }
  return (next() * 2 ** 21 + (next() >>> 11)) / 2 ** 53;
};

// The host's 64-bit integers are plain numbers.
export const numbersAre64Bit = true;

export const writeError = (text) => log("error", text);

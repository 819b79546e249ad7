// Everything a program can reach is made here, before it runs. What is used later is held in constants, so that a
// program that exchanges JSON.stringify or a prototype changes its own work and not ours. What a program may do is
// decided by the host, call by call: nothing here is a border.
(function (call, print, code) {
  "use strict";
  const { stringify, parse } = JSON;
  const { create, freeze } = Object;
  const text = String;
  const Failure = Error;
  const Wrong = TypeError;
  const has = Function.prototype.call.bind(Object.prototype.hasOwnProperty);
  const AsyncFunction = (async () => {}).constructor;

  class ToolError extends Failure {
    constructor(tool, said) {
      super(said.message);
      this.name = "ToolError";
      this.tool = tool;
      this.code = said.code;
    }
  }

  function asked(name, params) {
    const sent = stringify(params === undefined ? {} : params);
    if (sent === undefined) throw new Wrong(`tools.${name} takes an object of parameters`);
    const answer = parse(call(name, sent));
    if (has(answer, "failure")) throw new ToolError(name, answer.failure);
    return answer.result;
  }

  const stubs = create(null);
  const tools = new Proxy(create(null), {
    get(_, name) {
      if (typeof name !== "string" || name === "then") return undefined;
      return (stubs[name] ??= freeze(async (params) => asked(name, params)));
    },
    has: (_, name) => typeof name === "string" && name !== "then",
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
    setPrototypeOf: () => false,
    preventExtensions: () => false,
  });

  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Failure) return text(value);
    if (typeof value === "object" && value !== null) {
      const written = stringify(value);
      return written === undefined ? text(value) : written;
    }
    return text(value);
  }

  function log(...values) {
    let line = "";
    for (let at = 0; at < values.length; at++) line += (at ? " " : "") + shown(values[at]);
    print(line);
  }
  const console = freeze({ log, info: log, warn: log, error: log, debug: log });

  const program = new AsyncFunction("tools", "console", "print", code);
  return async () => {
    const value = await program(tools, console, log);
    return value === undefined ? undefined : stringify(value);
  };
});

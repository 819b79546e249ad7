// node starling.mjs SOURCE WIT WORLD OUT, with componentize-js beside it.
import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [source, wit, world, out] = process.argv.slice(2);
const { component } = await componentize(await readFile(source, "utf8"), {
  witWorld: await readFile(wit, "utf8"),
  worldName: world,
  disableFeatures: ["stdio", "random", "clocks", "http", "fetch-event"],
});
await writeFile(out, component);

// {{name}}: returns the temperature at a place. Change run, SCHEMA and describe; keep the rest.
// There is no fetch, no timer and no TextDecoder: use the host's interfaces. An uncaught error is reported with its line.

import { fetch } from "wasmrt:tool/http@0.1.0";
import { read } from "wasmrt:tool/workspace@0.1.0";
import { log } from "wasmrt:tool/log@0.1.0";
import { report } from "wasmrt:tool/progress@0.1.0";

const SCHEMA = {
  type: "object",
  properties: {
    place: { type: "string", description: "A place listed in weather/places.txt" },
    unit: { type: "string", enum: ["celsius", "fahrenheit"], description: "Default: celsius" },
  },
  required: ["place"],
  additionalProperties: false,
};

const run = ({ place, unit = "celsius" }) => {
  const [latitude, longitude] = coordinates(place);
  report(1, 2, "found the place");
  const forecast = get(
    `https://api.open-meteo.com/v1/forecast?latitude=${latitude}&longitude=${longitude}` +
      `&current=temperature_2m&temperature_unit=${unit}`,
  );
  report(2, 2, undefined);
  return { place, temperature: forecast.current.temperature_2m, unit };
};

// Each line of the file is a name, a latitude and a longitude.
const coordinates = (place) => {
  const lines = text(read("weather/places.txt")).split("\n").map((line) => line.trim().split(/\s+/));
  const places = new Map(lines.filter((words) => words.length === 3).map(([name, ...where]) => [name, where]));
  if (!places.has(place)) {
    const known = [...places.keys()].join(", ");
    throw { kind: "input", code: "unknown-place", message: `there is no place "${place}", only ${known}` };
  }
  return places.get(place);
};

const get = (url) => {
  log("info", `GET ${url}`);
  const headers = [{ name: "accept", value: "application/json" }];
  const response = fetch({ method: "get", url, headers, body: undefined, timeoutMs: 10_000 });
  if (response.status !== 200) {
    const message = `the API answered with status ${response.status}`;
    throw { kind: "operation-failed", code: "bad-status", message };
  }
  return JSON.parse(text(response.body));
};

const text = (bytes) => {
  const escaped = Array.from(bytes, (byte) => "%" + byte.toString(16).padStart(2, "0"));
  return decodeURIComponent(escaped.join(""));
};

export const provider = {
  describe: () => [
    {
      name: "{{name}}",
      description: "Tells how warm it is at a place.",
      schema: JSON.stringify(SCHEMA),
      annotations: { readOnly: true, destructive: false, network: true },
    },
  ],
  call: (name, params, context) => JSON.stringify(run(JSON.parse(params))),
};

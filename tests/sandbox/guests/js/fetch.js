// Asks with the web's own `fetch`, which the engine turns into wasi:http.
const ask = async ({ url, method = "GET", headers = {}, body, pieces = 0 }) => {
  const sent = pieces > 0 ? stream(pieces) : body;
  const response = await fetch(url, { method, headers, body: sent, duplex: "half" });
  return { status: response.status, headers: [...response.headers], ...(await read(response.body)) };
};

const stream = (pieces) =>
  new ReadableStream({
    pull(controller) {
      if (pieces-- > 0) controller.enqueue(new Uint8Array(4096).fill(120));
      else controller.close();
    },
  });

const read = async (body) => {
  let text = "";
  let bytes = 0;
  let largest = 0;
  if (body === null) return { body: text, body_bytes: bytes, largest };
  const reader = body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { body: text, body_bytes: bytes, largest };
    bytes += value.length;
    largest = Math.max(largest, value.length);
    if (text.length < 4096) text += decoder.decode(value);
  }
};

const run = async (params) => {
  if (!Array.isArray(params.all)) return ask(params);
  return { all: await Promise.all(params.all.map(ask)) };
};

export const tool = {
  async execute({ params }) {
    try {
      return { output: JSON.stringify(await run(JSON.parse(params))) };
    } catch (error) {
      return { error: `${error?.name}: ${error?.message ?? error}` };
    }
  },
  schema: () => '{"type": "object"}',
  description: () => "Asks a server.",
};

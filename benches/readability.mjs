// Reads {"html": text} or {"base64": bytes}, one on each line; writes the text of the article and the processor time.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const require = createRequire(process.cwd() + '/');
const { JSDOM, VirtualConsole } = require('jsdom');
const { Readability } = require('@mozilla/readability');

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  const source = given.base64 === undefined ? given.html : Buffer.from(given.base64, 'base64');
  const before = process.cpuUsage();
  let text = null;
  try {
    const page = new JSDOM(source, { url: 'https://example.com/a/page.html', virtualConsole: new VirtualConsole() });
    const article = new Readability(page.window.document).parse();
    text = article === null ? '' : article.textContent;
    page.window.close();
  } catch {
    // reported as null
  }
  const used = process.cpuUsage(before);
  process.stdout.write(JSON.stringify({ text, ms: (used.user + used.system) / 1000 }) + '\n');
}

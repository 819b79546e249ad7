// Remembers for this origin where the session's pages are, and leads from the address of a request to its page there.
"use strict";

const own = document.currentScript.dataset;
const name = `wasmrt-session ${own.base}`;

if (own.root) {
  localStorage.setItem(name, own.root);
} else if (own.request) {
  const root = localStorage.getItem(name) ?? "";
  // A path below our own pages and nothing else: what else is kept for this origin may not lead away from them.
  if (root.startsWith(own.base) && /^[A-Za-z0-9_-]+\/$/.test(root.slice(own.base.length))) {
    location.replace(`${root}requests/${own.request}`);
  }
}

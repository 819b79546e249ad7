// Says when the list of requests has changed. Nothing here is needed to act, and nothing on the page moves.
"use strict";

const watch = document.getElementById("watch");
const news = document.getElementById("news");
const said = document.getElementById("said");
const title = document.title;

async function look() {
  try {
    const response = await fetch(watch.dataset.from, { cache: "no-store", redirect: "error" });
    if (response.ok) {
      const found = await response.json();
      const changed = found.state !== watch.dataset.state;
      news.hidden = !changed;
      said.textContent = changed ? "The list of requests has changed." : "";
      document.title = changed ? `* ${title}` : title;
    }
  } catch {
    // The program has ended, or is busy: the next look will tell.
  }
  setTimeout(look, document.hidden ? 10000 : 2000);
}

if (watch) {
  setTimeout(look, 2000);
}

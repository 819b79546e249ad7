// Reports new, answered and expired requests. Nothing here is needed to act, and no request moves on the page.
"use strict";

const watch = document.getElementById("watch");
const news = document.getElementById("news");
const said = document.getElementById("said");
const notify = document.getElementById("notify");
const title = document.title;
const cards = [...document.querySelectorAll("[data-request]")];
const known = new Set(cards.map((card) => card.dataset.request));

function end(card, words) {
  card.classList.add("over");
  card.querySelectorAll("form, details:has(form)").forEach((part) => part.remove());
  const note = document.createElement("p");
  const strong = document.createElement("strong");
  strong.textContent = words;
  const link = document.createElement("a");
  link.href = location.href.split("#")[0];
  link.textContent = "Show the outcome";
  note.append(strong, " ", link);
  card.append(note);
  card.removeAttribute("data-request");
  said.textContent = words;
}

function count() {
  document.querySelectorAll("[data-ends]").forEach((left) => {
    const seconds = Math.round((Number(left.dataset.ends) - Date.now()) / 1000);
    left.textContent = seconds >= 6000 ? `${Math.floor(seconds / 3600)} h left`
      : seconds >= 60 ? `${Math.floor(seconds / 60)} min left` : `${Math.max(0, seconds)} s left`;
    left.parentElement.classList.toggle("soon", seconds < 120);
    const card = left.closest("[data-request]");
    if (seconds <= 0 && card) {
      end(card, "Expired.");
    }
  });
}

function announce(fresh) {
  if (news) {
    news.hidden = false;
  }
  said.textContent = "The list of requests has changed.";
  document.title = `* ${title}`;
  if (typeof Notification !== "undefined" && Notification.permission === "granted" && document.hidden) {
    new Notification("wasmrt: a request waits for you", { tag: "wasmrt", requireInteraction: false });
  }
  fresh.forEach((id) => known.add(id));
}

async function look() {
  try {
    const response = await fetch(watch.dataset.from, { cache: "no-store", redirect: "error" });
    if (response.ok) {
      const open = new Set((await response.json()).open);
      cards.filter((card) => card.dataset.request && !open.has(card.dataset.request))
        .forEach((card) => end(card, "Answered elsewhere, or withdrawn."));
      const fresh = [...open].filter((id) => !known.has(id));
      if (fresh.length) {
        announce(fresh);
      }
    }
  } catch {
    // The program has ended, or is busy.
  }
  setTimeout(look, document.hidden ? 10000 : 2000);
}

if (watch) {
  setTimeout(look, 2000);
  setInterval(count, 1000);
}
if (notify && typeof Notification !== "undefined" && Notification.permission === "default") {
  notify.hidden = false;
  notify.addEventListener("click", async () => {
    notify.hidden = (await Notification.requestPermission()) !== "default";
  });
}

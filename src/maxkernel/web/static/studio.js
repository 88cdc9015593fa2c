// Keeps a page in step with its run. All state is the server's; this asks for parts anew.
"use strict";

(() => {
  const body = document.body;
  const live = document.getElementById("live");
  let pending = null;
  let source = null;
  let last = [];

  function changed() {
    if (pending !== null) return;
    pending = setTimeout(() => {
      pending = null;
      body.dispatchEvent(new CustomEvent("run-changed"));
    }, 150);
  }

  // While an answer is being written, only the last number of the mark changes.
  function heard(event) {
    const mark = JSON.parse(event.data);
    const draft = Array.isArray(mark) && mark.length === 3
      && mark[0] === last[0] && mark[1] === last[1];
    last = mark;
    if (draft) body.dispatchEvent(new CustomEvent("draft-changed"));
    else changed();
  }

  function listen() {
    const address = body.dataset.events;
    if (!address || source !== null) return;
    source = new EventSource(address);
    source.addEventListener("changed", heard);
    source.onopen = () => { live.textContent = "live"; };
    source.onerror = () => { live.textContent = "reconnecting"; };
  }

  // Browsers allow few connections to one host: a tab that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      if (source !== null) source.close();
      source = null;
    } else {
      listen();
    }
  });

  function newKey(form) {
    const key = form.querySelector("input[name=key]");
    if (key !== null) key.value = crypto.getRandomValues(new Uint32Array(2)).join("-");
  }

  body.addEventListener("htmx:after:request", (event) => {
    const form = event.target.closest("form");
    const response = event.detail.ctx && event.detail.ctx.response;
    if (form === null || !response || response.status !== 200) return;
    if (form.dataset.done === "reset") {
      form.reset();
      newKey(form);
    } else if (form.dataset.done === "remove") {
      form.remove();
    }
    changed();
  });

  body.addEventListener("click", (event) => {
    if (event.target.closest("[data-discard]")) event.target.closest("form").remove();
  });

  // A list that was read to its end stays at its end when it grows.
  for (const list of document.querySelectorAll("[data-stick]")) {
    let atEnd = true;
    list.scrollTop = list.scrollHeight;
    list.addEventListener("scroll", () => {
      atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    });
    new MutationObserver(() => { if (atEnd) list.scrollTop = list.scrollHeight; })
      .observe(list, { childList: true, subtree: true, characterData: true });
  }

  // In the editor: Enter keeps the indentation, Ctrl+S saves, Tab moves on as everywhere.
  body.addEventListener("keydown", (event) => {
    const area = event.target;
    if (!(area instanceof HTMLTextAreaElement)) return;
    if (event.key === "s" && (event.ctrlKey || event.metaKey) && area.form) {
      event.preventDefault();
      area.form.requestSubmit();
    } else if (event.key === "Enter" && area.classList.contains("code")) {
      const before = area.value.slice(0, area.selectionStart);
      const line = before.slice(before.lastIndexOf("\n") + 1);
      const blank = line.match(/^[ ]*/)[0] + (/:\s*$/.test(line) ? "    " : "");
      if (blank) {
        event.preventDefault();
        area.setRangeText("\n" + blank, area.selectionStart, area.selectionEnd, "end");
      }
    }
  });

  body.addEventListener("run-changed", () => window.maxkernelCharts.refresh());
  listen();
})();

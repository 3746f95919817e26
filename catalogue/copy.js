// Shows the copy buttons and makes them work.
"use strict";

(() => {
  const status = document.getElementById("status");

  // The clipboard is not there on pages over plain http, which many clusters' pages are.
  async function copy(text) {
    if (navigator.clipboard) {
      try {
        await navigator.clipboard.writeText(text);
        return true;
      } catch {
        // refused: the older way needs no permission
      }
    }
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    try {
      return document.execCommand("copy");
    } finally {
      field.remove();
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) {
      return;
    }
    const done = await copy(button.parentElement.querySelector("code").textContent);
    button.focus();
    button.textContent = done ? "Copied" : "Select and copy";
    button.classList.toggle("done", done);
    if (status.classList.contains("unseen")) {
      status.textContent = done ? "Copied" : "Copying is not allowed here";
    }
    setTimeout(() => {
      button.textContent = "Copy";
      button.classList.remove("done");
    }, 2000);
  });
})();

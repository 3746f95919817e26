// The theme makes a <nav> without a name for the button of each block of code: no landmarks for a screen reader.
new MutationObserver(() => {
  for (const nav of document.querySelectorAll(".md-code__nav:not([role])")) {
    nav.setAttribute("role", "none");
  }
}).observe(document.documentElement, { childList: true, subtree: true });

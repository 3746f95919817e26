// Search and filters over the list of modules. Words come from search-data.js (src/sifmod/catalogue/index.py): to find
// the words that contain what is typed among some ten thousand takes a millisecond, so no library is needed.
"use strict";

(() => {
  const { modules, commands, packages } = globalThis.sifmodIndex;
  const form = document.getElementById("search");
  const query = document.getElementById("query");
  const status = document.getElementById("status");
  const nothing = document.getElementById("nothing");
  const rows = [...document.querySelectorAll("#modules > li")];
  const found = rows.map((row) => row.querySelector(".found"));
  const names = modules.map((name) => name.toLowerCase());
  const filters = [...form.elements].filter((field) => field.name);
  // So many results say which of their packages and commands match; more would be scrolled past, and cost time.
  const EXPLAINED = 100;
  const REASONS = 4;

  const spelling = (word) => word.toLowerCase().replace(/[-_.]+/g, "-");

  // An exact word is the best reason for a result, then one that begins with what was typed.
  function ranked(entries, word) {
    const ranks = [[], [], []];
    for (const entry of entries) {
      const at = entry.key.indexOf(word);
      if (at >= 0) {
        ranks[entry.key === word ? 0 : at === 0 ? 1 : 2].push(entry);
      }
    }
    return ranks.flat();
  }

  const words = {
    commands: commands.map(([name, distances]) => ({ key: name.toLowerCase(), name, distances })),
    packages: packages.map(([name, versions, postings]) => ({ key: name, name, versions, postings })),
  };

  // Marks the modules that match one word, and notes why.
  function match(word, reasons) {
    const marks = new Uint8Array(modules.length);
    const [name, version] = word.split("==");
    const note = (number, title, one = "") => {
      marks[number] = 1;
      const noted = (reasons[number] ??= []);
      if (noted.length < REASONS) {
        noted.push(one ? `${title} ${one}` : title);
      }
    };
    for (const { name: title, versions, postings, key } of ranked(words.packages, spelling(name))) {
      if (version !== undefined && key !== spelling(name)) {
        continue;
      }
      const wanted = versions.map((one) => version === undefined || one.startsWith(version));
      let number = 0;
      for (let at = 0; at < postings.length; at += 2) {
        number += postings[at];
        if (wanted[postings[at + 1]]) {
          note(number, title, versions[postings[at + 1]]);
        }
      }
    }
    if (version === undefined) {
      for (const { name: title, distances } of ranked(words.commands, word)) {
        let number = 0;
        for (const distance of distances) {
          number += distance;
          note(number, title);
        }
      }
      names.forEach((one, number) => {
        if (one.includes(word)) {
          marks[number] = 1;
        }
      });
    }
    return marks;
  }

  function passes(row, chosen) {
    return chosen.every(([name, value]) => row.dataset[name] === value);
  }

  function explain(element, reasons) {
    element.replaceChildren();
    element.hidden = !reasons;
    for (const text of reasons ?? []) {
      const mark = document.createElement("mark");
      mark.textContent = text;
      element.append(mark, " ");
    }
  }

  function search() {
    const asked = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = settings().filter(([name]) => name !== "q");
    const reasons = new Array(modules.length);
    const marks = asked.map((word) => match(word, reasons));
    let count = 0;
    rows.forEach((row, number) => {
      const shown = marks.every((one) => one[number]) && passes(row, chosen);
      if (row.hidden === shown) {
        row.hidden = !shown;
      }
      count += shown ? 1 : 0;
      if (shown && count <= EXPLAINED) {
        explain(found[number], reasons[number]);
      } else if (!found[number].hidden) {
        explain(found[number]);
      }
    });
    const all = `${modules.length} module${modules.length === 1 ? "" : "s"}`;
    status.textContent = asked.length || chosen.length ? `${count} of ${all}` : all;
    nothing.hidden = count > 0;
  }

  // The search as pairs, as the address has them.
  function settings() {
    const pairs = filters.map((field) => [field.name, field.type === "checkbox" && !field.checked ? "" : field.value]);
    return [["q", query.value.trim()], ...pairs].filter(([, value]) => value);
  }

  function remember() {
    const pairs = settings();
    const hash = pairs.length ? `#${new URLSearchParams(pairs)}` : "#";
    try {
      history.replaceState(null, "", hash);
    } catch {
      // a browser that forbids this to files: the search works all the same
    }
  }

  function restore() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    query.value = wanted.get("q") ?? "";
    for (const field of filters) {
      const value = wanted.get(field.name) ?? "";
      if (field.type === "checkbox") {
        field.checked = value === field.value;
      } else {
        field.value = value;
        if (field.selectedIndex < 0) {
          field.value = "";
        }
      }
    }
    search();
  }

  // Assistive technology that sets a field may report only one of the two.
  for (const kind of ["input", "change"]) {
    form.addEventListener(kind, () => {
      search();
      remember();
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => {
    // the fields are reset after this event
    setTimeout(() => {
      search();
      remember();
      query.focus();
    });
  });
  addEventListener("hashchange", restore);
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      query.focus();
      query.select();
    }
  });

  form.hidden = false;
  restore();
})();

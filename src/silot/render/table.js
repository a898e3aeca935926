"use strict";
// Filters and sorts tables that are whole without it. It asks nobody for anything, and what it
// shows is text of the page.
const NUMBER = /-?(?:\u221e|\d[\d,]*(?:\.\d*)?(?:e[-+]?\d+)?)/;

// Rows that a reader sees at once; a button shows all.
const MOST = 20;

function folded(text) {
  return text.normalize("NFKC").toLowerCase();
}

function numberOf(text) {
  const found = NUMBER.exec(text.replaceAll("\u2212", "-"));
  if (!found) return NaN;
  return Number(found[0].replaceAll(",", "").replace("\u221e", "Infinity"));
}

function filtered(box) {
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("thead th")];
  const search = box.querySelector("input[type=search]");
  const only = box.querySelector("input[type=checkbox]");
  const kind = box.querySelector("select");
  const told = box.querySelector("output");
  const all = box.querySelector(".all");
  const rows = [...body.rows];
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  let texts = null;
  let order = rows;

  function show() {
    const words = folded(search.value).split(/\s+/).filter(Boolean);
    if (words.length && !texts) {
      const text = (row) => [...row.cells].map((cell) => cell.textContent).join(" ");
      texts = new Map(rows.map((row) => [row, folded(text(row))]));
    }
    const fit = order.filter(
      (row) =>
        !(only && only.checked && !("flag" in row.dataset)) &&
        !(kind && kind.value && !row.dataset.kinds.split("|").includes(kind.value)) &&
        words.every((word) => texts.get(row).includes(word))
    );
    const shown = all.hidden ? fit : fit.slice(0, MOST);
    body.replaceChildren(...shown);
    all.textContent = `Show all ${fit.length.toLocaleString("en")}`;
    all.style.display = fit.length > shown.length ? "" : "none";
    const of = rows.length.toLocaleString("en");
    told.textContent = `${shown.length.toLocaleString("en")} of ${of} rows`;
  }

  function sorted(column, direction) {
    if (!direction) return rows;
    const numeric = heads[column].classList.contains("number");
    const keys = new Map(
      rows.map((row) => {
        const text = row.cells[column].textContent.trim();
        return [row, numeric ? numberOf(text) : text];
      })
    );
    return [...rows].sort((a, b) => {
      const [first, second] = [keys.get(a), keys.get(b)];
      if (!numeric) return direction * collator.compare(first, second);
      // What is not known comes last either way.
      if (isNaN(first) || isNaN(second)) return isNaN(first) - isNaN(second);
      return first === second ? 0 : direction * (first < second ? -1 : 1);
    });
  }

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    // Names of columns stay outside: browsers print buttons on the first sheet only.
    button.setAttribute("aria-label", `Sort by ${head.textContent.trim()}`);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: ["descending", -1], descending: [null, 0] };
      const [word, direction] = next[head.getAttribute("aria-sort")] ?? ["ascending", 1];
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      if (word) head.setAttribute("aria-sort", word);
      order = sorted(column, direction);
      show();
    });
  });
  // Thousands of rows take a moment: not at every letter.
  const few = 500;
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    if (rows.length <= few) show();
    else waiting = setTimeout(show, 250);
  });
  only?.addEventListener("change", show);
  all.addEventListener("click", () => {
    all.hidden = true;
    show();
  });
  kind?.addEventListener("change", show);
  box.querySelector(".controls").hidden = false;
  all.hidden = rows.length <= MOST;
  // A browser that goes back to the page brings back what was typed.
  show();
}

document.querySelectorAll(".filtered").forEach(filtered);

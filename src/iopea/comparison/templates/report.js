"use strict";

// Tables sort by a column within each section: up, down, then as they were written.
for (const table of document.querySelectorAll("table")) {
  const headings = [...table.tHead.rows[0].cells];
  const sections = [...table.tBodies].map((body) => ({
    body,
    rows: [...body.rows].filter((row) => !row.classList.contains("section")),
  }));

  const all = sections.flatMap(({ rows }) => rows);
  const numeric = headings.map((_, column) =>
    all.some((row) => row.cells[column]?.dataset.value !== undefined));

  const compare = (column, up) => (one, other) => {
    const [a, b] = [one.cells[column], other.cells[column]];
    if (!numeric[column]) {
      return up * a.textContent.localeCompare(b.textContent, "en", { numeric: true });
    }
    const [x, y] = [a, b].map((cell) => parseFloat(cell.dataset.value));
    // Entries without a value stay at the end.
    return Number.isNaN(x) - Number.isNaN(y) || (Number.isNaN(x) ? 0 : up * (x - y));
  };

  headings.forEach((heading, column) => {
    const button = heading.querySelector(".sort");
    if (!button || !table.querySelector("tbody th[scope=row]")) return;
    button.disabled = false;
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: null }[heading.getAttribute("aria-sort")];
      const order = next === undefined ? "ascending" : next;
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      if (order) heading.setAttribute("aria-sort", order);
      for (const { body, rows } of sections) {
        const up = order === "ascending" ? 1 : -1;
        body.append(...(order ? [...rows].sort(compare(column, up)) : rows));
      }
    });
  });
}

// The list of commands is for those who come from a link without a script.
const list = document.querySelector("#commands details");
if (list && !/^#command-/.test(location.hash)) list.open = false;

// An entry shows its command in the bar at the bottom.
const bar = document.getElementById("bar");
const code = bar.querySelector("code");
const copy = bar.querySelector(".copy");
let selected = null;

const close = () => {
  bar.hidden = true;
  document.body.classList.remove("open");
  selected?.removeAttribute("aria-current");
  selected?.focus({ preventScroll: true });
  selected = null;
};

const show = (entry) => {
  selected?.removeAttribute("aria-current");
  selected = entry;
  entry.setAttribute("aria-current", "true");
  const value = entry.closest("td") ? `: ${entry.textContent}` : "";
  bar.querySelector(".place").textContent = entry.dataset.place + value;
  bar.querySelector(".about").textContent = entry.title;
  code.textContent = document.querySelector(`${entry.hash} code`).textContent;
  copy.textContent = "Copy";
  bar.hidden = false;
  document.body.classList.add("open");
  // The bar must not hide what was selected.
  const hidden = entry.getBoundingClientRect().bottom + 16 - bar.getBoundingClientRect().top;
  if (hidden > 0) window.scrollBy(0, hidden);
};

document.addEventListener("click", (event) => {
  const entry = event.target.closest(".entry");
  if (!entry || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (entry === selected) close();
  else show(entry);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && selected) close();
});

bar.querySelector(".close").addEventListener("click", close);

copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(code.textContent);
    copy.textContent = "Copied";
  } catch {
    // Without the right to write, the command is selected for the person to copy.
    window.getSelection().selectAllChildren(code);
    copy.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
});

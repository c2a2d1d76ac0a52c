"use strict";
// Sorts the table of runs by the column whose heading is clicked. Without this script the newest run comes first.
(() => {
  const table = document.querySelector("table.runs");
  const heads = [...table.querySelectorAll("thead th")];
  const body = table.tBodies[0];
  const sort = (place, ascending) => {
    const value = (row) => row.cells[place].dataset.value;
    const numbers = heads[place].classList.contains("number");
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // what is not known comes last
      const order = numbers ? Number(x) - Number(y) : x.localeCompare(y, "en", { numeric: true });
      return ascending ? order : -order;
    });
    body.append(...rows);
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[place].setAttribute("aria-sort", ascending ? "ascending" : "descending");
  };
  heads.forEach((head, place) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const first = head.dataset.sort === "ascending";
      sort(place, now ? now === "descending" : first);
    });
  });
})();

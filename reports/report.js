(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const root = document.documentElement;

  // Theme: follow the system until the reader chooses.
  const button = find("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => root.dataset.theme || (prefersDark.matches ? "dark" : "light");
  const label = () => {
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${button.textContent.toLowerCase()} theme`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = theme() === "dark" ? "light" : "dark";
    label();
  });
  prefersDark.addEventListener("change", label);
  label();

  // Filters: hide the rows and figures of curves that do not match.
  const filters = find("filters");
  if (filters) {
    const selects = [...filters.querySelectorAll("select")];
    const rows = [...document.querySelectorAll(".verdict tr[data-curve]")];
    const apply = () => {
      const chosen = selects.filter((select) => select.value);
      const matches = (row) => chosen.every((select) => row.dataset[select.name] === select.value);
      const kept = new Set(rows.filter(matches).map((row) => row.dataset.curve));
      for (const row of document.querySelectorAll("tr[data-curve]")) row.hidden = !kept.has(row.dataset.curve);
      for (const figure of document.querySelectorAll("figure[data-curves]"))
        figure.hidden = !figure.dataset.curves.split(" ").some((curve) => kept.has(curve));
      find("shown").textContent = chosen.length ? `${kept.size} of ${rows.length} curves shown` : "";
    };
    filters.hidden = false;
    filters.addEventListener("change", apply);
    apply(); // a reload may keep an earlier choice
  }

  // Charts: the static picture is the chart. Vega starts with the first one that comes into view.
  let page;
  const load = () => {
    if (page) return;
    const script = document.createElement("script");
    script.textContent = find("vega").textContent;
    document.body.append(script);
    page = JSON.parse(find("charts").textContent);
  };
  const rows = (columns) => {
    const names = Object.keys(columns);
    return names.length ? columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]]))) : [];
  };
  const specification = ({ spec, data, parameters }) => ({
    ...page.specs[spec],
    config: page.config,
    width: "container",
    autosize: { type: "fit-x", contains: "padding" },
    params: Object.entries(parameters).map(([name, value]) => ({ name, value })),
    datasets: Object.fromEntries(Object.entries(data).map(([role, name]) => [role, rows(page.datasets[name])])),
  });
  const draw = async (plot) => {
    if (plot.dataset.live) return;
    plot.dataset.live = "drawing";
    load();
    const live = document.createElement("div");
    live.className = "live drawing";
    live.setAttribute("aria-hidden", "true"); // the plot has one text alternative, with its numbers
    plot.append(live);
    try {
      await window.vegaEmbed(live, specification(page.charts[plot.dataset.chart]), {
        actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip: { disableDefaultStyle: true },
      });
      live.className = "live";
      plot.querySelector(".static").hidden = true;
      plot.dataset.live = "yes";
    } catch (error) {
      live.remove();
      plot.dataset.live = "failed";
      console.error(plot.dataset.chart, error);
    }
  };
  const whenIdle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      whenIdle(() => draw(entry.target));
    }
  }, { rootMargin: "200px" });
  for (const plot of document.querySelectorAll(".plot")) {
    plot.addEventListener("pointerenter", () => draw(plot), { once: true, passive: true });
    watcher.observe(plot);
  }
})();

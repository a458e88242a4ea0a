"use strict";
// The charts of the report. Everything they show is in the element "data".
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
  const ink = dark ? "#9aa7b4" : "#5c6b7a";
  const rule = dark ? "#2c3640" : "#e6eaee";
  const colours = dark
    ? ["#6ab0ff", "#ffb454", "#6fd3a0", "#ff8a80", "#c8a2ff", "#7fd8d8"]
    : ["#1f6fc4", "#c76a00", "#1b7f4b", "#b3261e", "#7a3fc0", "#0b7f86"];
  const height = 240;
  const plots = [];

  const short = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toPrecision(3) + "M";
    if (size >= 1e4) return (value / 1e3).toPrecision(3) + "k";
    return size >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  };
  const seconds = (value) =>
    value >= 120 ? Math.floor(value / 60) + ":" + String(Math.round(value % 60)).padStart(2, "0") : short(value) + " s";

  function chart(id, x, series, options) {
    const place = document.getElementById(id);
    if (!place || x.length === 0) return;
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const formatX = options.formatX || seconds;
    const settings = {
      width: place.clientWidth,
      height,
      scales: { x: { time: false, ...(options.x || {}) }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatX(tick))) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map(short) },
      ],
      series: [
        { label: options.xLabel || "time", value: (_, value) => (value === null ? "–" : formatX(value)) },
        ...series.map((one, index) => ({
          label: one.label,
          stroke: one.colour || colours[index % colours.length],
          fill: one.fill,
          width: 1.5,
          points: { show: x.length === 1 },
          paths: one.paths,
          value: (_, value) => short(value),
        })),
      ],
    };
    plots.push([place, new uPlot(settings, [x, ...series.map((one) => one.values)], place)]);
  }

  const points = data.points;
  const time = points.map((point) => point.at_s);
  const column = (name) => points.map((point) => (point.requests > 0 ? point[name] : null));
  const rate = (name) => points.map((point) => point[name] / point.length_s);

  chart("rate", time, [
    { label: "requests/s", values: rate("requests") },
    { label: "failed/s", values: rate("failures"), colour: colours[3] },
  ], {});
  chart("latency", time, [
    { label: "p50 ms", values: column("p50_ms") },
    { label: "p90 ms", values: column("p90_ms") },
    { label: "p95 ms", values: column("p95_ms") },
    { label: "p99 ms", values: column("p99_ms"), colour: colours[3] },
  ], {});
  chart("users", time, [{ label: data.crowd, values: points.map((point) => point.users) }], {});

  const classes = ["no response", "1xx", "2xx", "3xx", "4xx", "5xx"];
  const shades = [colours[3], colours[5], colours[2], colours[0], colours[1], colours[4]];
  const seen = classes
    .map((label, index) => ({
      label: label + "/s",
      colour: shades[index],
      values: points.map((point) => point.classes[index] / point.length_s),
    }))
    .filter((one) => one.values.some((value) => value > 0));
  chart("statuses", time, seen, {});

  const phases = [["connect ms", "connect_ms"], ["TLS ms", "tls_ms"], ["waiting ms", "waiting_ms"], ["receiving ms", "receiving_ms"]]
    .map(([label, name]) => ({ label, values: column(name) }))
    .filter((one) => one.values.some((value) => value > 0));
  chart("phases", time, phases, {});

  // Bars over a logarithmic axis: each bin is as wide as the next.
  chart("distribution", data.bins.map((bin) => bin[0]), [
    { label: "requests", values: data.bins.map((bin) => bin[1]), fill: colours[0] + "55", paths: uPlot.paths.bars({ size: [0.95] }) },
  ], { x: { distr: 3 }, formatX: (value) => short(value) + " ms", xLabel: "latency" });

  const fit = () => plots.forEach(([place, plot]) => plot.setSize({ width: place.clientWidth, height }));
  addEventListener("resize", fit);
  // What a test of the page looks at.
  const root = document.documentElement;
  root.dataset.charts = String(plots.length);
  root.dataset.fits = String(root.scrollWidth <= root.clientWidth);
})();

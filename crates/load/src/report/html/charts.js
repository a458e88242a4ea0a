"use strict";
// How a chart looks, in the report and on the live page.
const charts = (function () {
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
    if (!place || (x.length === 0 && !options.isLive)) return null;
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    const formatX = options.formatX || seconds;
    const tall = height + (options.moreHeight || 0);
    const settings = {
      width: place.clientWidth,
      height: tall,
      scales: { x: { time: false, ...(options.x || {}) }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [
        { ...axis, ...(options.xAxis || {}), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatX(tick))) },
        { ...axis, size: 56, values: (_, ticks) => ticks.map(short) },
      ],
      series: [
        { label: options.xLabel || "time", value: (_, value) => (value === null ? "–" : formatX(value)) },
        ...series.map((one, index) => ({
          label: one.label,
          stroke: one.colour || colours[index % colours.length],
          fill: one.fill,
          width: 1.5,
          points: { show: (plot) => options.hasPoints === true || plot.data[0].length === 1 },
          paths: one.paths,
          value: (_, value) => short(value),
        })),
      ],
    };
    const plot = new uPlot(settings, [x, ...series.map((one) => one.values)], place);
    plots.push([place, plot, tall]);
    return plot;
  }

  const fit = () => plots.forEach(([place, plot, tall]) => plot.setSize({ width: place.clientWidth, height: tall }));
  addEventListener("resize", fit);
  // What a test of the page looks at.
  function done() {
    const root = document.documentElement;
    root.dataset.charts = String(plots.length);
    root.dataset.fits = String(root.scrollWidth <= root.clientWidth);
  }
  return { chart, colours, short, done };
})();

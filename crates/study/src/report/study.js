"use strict";
// The charts of a study: lines over names, each a measured value of a server.
(function () {
  const { chart, colours, done } = charts;
  const data = JSON.parse(document.getElementById("data").textContent);
  data.forEach((one, number) => {
    const places = one.labels.map((_, index) => index);
    const name = (place) => (Number.isInteger(place) && one.labels[place] !== undefined ? one.labels[place] : "");
    const series = one.series.map((line, index) => ({
      label: line.label,
      values: line.values,
      colour: colours[index % colours.length],
      // Bars stand beside one another.
      paths: one.series.length === 1 ? uPlot.paths.bars({ size: [0.7] }) : undefined,
      fill: one.series.length === 1 ? colours[index] + "55" : undefined,
    }));
    // Long names stand upright, so that none covers another.
    const longest = Math.max(...one.labels.map((label) => label.length));
    const size = Math.min(10 + 7 * longest, 240);
    const upright = longest > 6 ? { xAxis: { rotate: -90, size, splits: () => places }, moreHeight: size - 40 } : {};
    chart("chart-" + number, places, series, {
      x: { range: () => [-0.5, places.length - 0.5] },
      formatX: name,
      xLabel: "case",
      hasPoints: true,
      ...upright,
    });
  });
  done();
})();

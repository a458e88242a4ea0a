"use strict";
// The charts of the report. Everything they show is in the element "data".
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { chart, colours, short, done } = charts;
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

  done();
})();

"use strict";
// The page of `--ui`: asks for the state of the run twice a second, draws it, starts and stops.
(function () {
  const { chart, colours, short, done } = charts;
  const place = (id) => document.getElementById(id);
  const root = document.documentElement;
  const classes = ["no response", "1xx", "2xx", "3xx", "4xx", "5xx"];
  const shades = [colours[3], colours[5], colours[2], colours[0], colours[1], colours[4]];
  const each = (name) => (point) => point[name] / point.length_s;
  const seen = (name) => (point) => (point.requests > 0 ? point[name] : null);
  const curves = {
    rate: [
      { label: "requests/s", of: each("requests") },
      { label: "failed/s", of: each("failures"), colour: colours[3] },
    ],
    latency: ["p50", "p90", "p95", "p99"].map((name, index) => ({
      label: name + " ms",
      of: seen(name + "_ms"),
      colour: colours[index],
    })),
    statuses: classes.map((label, index) => ({
      label: label + "/s",
      of: (point) => point.classes[index] / point.length_s,
      colour: shades[index],
    })),
    users: [{ label: "at work", of: (point) => point.users }],
  };
  const plots = Object.entries(curves).map(([id, series]) => [
    series,
    chart(id, [], series.map((one) => ({ ...one, values: [] })), { isLive: true }),
  ]);

  let points = [];
  let epoch = -1;

  function draw() {
    const time = points.map((point) => point.at_s);
    for (const [series, plot] of plots) plot.setData([time, ...series.map((one) => points.map(one.of))]);
  }

  function show(state) {
    if (state.epoch !== epoch) points = [];
    epoch = state.epoch;
    const isNew = points.length === 0 || state.points.length > 0;
    points = points.concat(state.points);
    if (isNew) draw();
    const last = points[points.length - 1];
    const ms = (name) => (last && last.requests > 0 ? short(last[name]) + " ms" : "–");
    place("phase").textContent = state.phase;
    place("elapsed").textContent = short(state.elapsed_s) + " s";
    place("requests").textContent = String(state.requests);
    place("per_second").textContent = last ? short(last.requests / last.length_s) : "–";
    place("failures").textContent =
      state.failures + (state.requests > 0 ? " (" + ((100 * state.failures) / state.requests).toFixed(2) + "%)" : "");
    place("p50").textContent = ms("p50_ms");
    place("p95").textContent = ms("p95_ms");
    place("p99").textContent = ms("p99_ms");
    place("at_work").textContent = last ? String(last.users) : "–";
    place("complaint").textContent = state.complaint || "";
    place("report").hidden = !state.has_report;
    const runs = state.phase === "running" || state.phase === "stopping";
    place("start").disabled = runs;
    place("change").disabled = place("stop").disabled = state.phase !== "running";
    root.dataset.phase = state.phase;
    root.dataset.points = String(points.length);
    done();
  }

  async function look() {
    try {
      const answer = await fetch("/state?epoch=" + epoch + "&from=" + points.length);
      show(await answer.json());
    } catch (error) {
      place("complaint").textContent = "the load tester does not answer";
      root.dataset.phase = "gone";
    }
  }

  async function tell(path, what) {
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(what) };
    const answer = await fetch(path, options).catch(() => null);
    const text = answer ? await answer.text() : "the load tester does not answer";
    await look();
    if (!answer || !answer.ok) place("complaint").textContent = text;
  }

  place("form").addEventListener("submit", (event) => {
    event.preventDefault();
    tell("/start", Object.fromEntries(new FormData(place("form"))));
  });
  place("change").addEventListener("click", () =>
    tell("/users", { users: new FormData(place("form")).get("users") })
  );
  place("stop").addEventListener("click", () => tell("/stop", {}));

  (async function () {
    for (;;) {
      await look();
      await new Promise((wake) => setTimeout(wake, 500));
    }
  })();
})();

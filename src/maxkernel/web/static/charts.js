// The pictures: drawn with d3 from the JSON block in each figure, or from its data address.
"use strict";

(() => {
  const format = d3.format(".3~g");
  const micro = (us) => (us >= 1000 ? `${format(us / 1000)} ms` : `${format(us)} us`);

  // Pictures are drawn at the size at which they are shown, so that their text stays readable.
  const room = (figure) => Math.max(300, Math.min(900, figure.clientWidth || 640));

  function canvas(figure, width, height, label) {
    d3.select(figure).selectAll("svg, .legend").remove();
    return d3.select(figure).insert("svg", "figcaption")
      .attr("viewBox", `0 0 ${width} ${height}`)
      .attr("role", "group").attr("aria-label", label);
  }

  function legend(figure, entries) {
    const list = d3.select(figure).insert("div", "figcaption").attr("class", "legend");
    for (const [name, cls] of entries) {
      const entry = list.append("span");
      entry.append("svg").attr("width", 12).attr("height", 12).style("width", "12px")
        .style("display", "inline-block").style("vertical-align", "-1px")
        .append("rect").attr("width", 12).attr("height", 12).attr("rx", 3).attr("class", cls);
      entry.append("span").text(` ${name}`);
    }
  }

  function curve(figure, data) {
    const width = room(figure), height = 300, left = 64, right = 16, top = 16, bottom = 34;
    const svg = canvas(figure, width, height, "Best time so far");
    const known = data.points.filter((p) => p.us !== null);
    const values = known.map((p) => p.us).concat([data.baseline, data.bound].filter((v) => v));
    if (values.length === 0) {
      svg.append("text").attr("class", "soft").attr("x", width / 2).attr("y", height / 2)
        .attr("text-anchor", "middle").text("nothing judged yet");
      return;
    }
    const x = d3.scaleLinear([0.5, Math.max(data.points.length, 3) + 0.5], [left, width - right]);
    const y = d3.scaleLog([d3.min(values) * 0.85, d3.max(values) * 1.15], [height - bottom, top]);
    const ticks = y.ticks(5).filter((v, i, all) => all.length < 9 || i % 2 === 0);
    svg.append("g").attr("class", "axis soft").attr("transform", `translate(0,${height - bottom})`)
      .call(d3.axisBottom(x).tickValues(x.ticks(10).filter(Number.isInteger)).tickFormat(d3.format("d")));
    svg.append("g").attr("class", "axis soft").attr("transform", `translate(${left},0)`)
      .call(d3.axisLeft(y).tickValues(ticks).tickFormat(micro));
    svg.append("text").attr("class", "soft").attr("x", width - right).attr("y", height - 4)
      .attr("text-anchor", "end").text("evaluations");
    for (const [value, name, cls] of [[data.baseline, "XLA", "baseline"], [data.bound, "roofline", "bound"]]) {
      if (!value) continue;
      svg.append("line").attr("class", cls).attr("x1", left).attr("x2", width - right)
        .attr("y1", y(value)).attr("y2", y(value));
    }
    for (const p of data.points.filter((q) => q.us === null)) {
      const cx = x(p.n), cy = height - bottom - 8;
      svg.append("path").attr("class", "refusal").attr("d", `M${cx - 4},${cy - 4}l8,8m0,-8l-8,8`)
        .append("title").text(`${p.n}: design ${p.design} refused, ${p.fate}`);
    }
    svg.append("path").attr("class", "best-line").attr("d", d3.line()
      .defined((p) => p.best !== null).x((p) => x(p.n)).y((p) => y(p.best))
      .curve(d3.curveStepAfter)(data.points));
    svg.selectAll(".dot").data(known).join("circle").attr("class", "dot")
      .attr("cx", (p) => x(p.n)).attr("cy", (p) => y(p.us)).attr("r", 4.5)
      .append("title").text((p) => `${p.n}: design ${p.design}, ${micro(p.us)}`);
    for (const [value, name, cls] of [[data.baseline, "XLA", "baseline"], [data.bound, "roofline", "bound"]]) {
      if (!value) continue;
      svg.append("text").attr("class", cls).attr("x", width - right).attr("y", y(value) - 6)
        .attr("text-anchor", "end").text(`${name} ${micro(value)}`);
    }
  }

  function place(nodes) {
    // Layers by distance from the task; within a layer, beside the parents.
    const byId = new Map(nodes.map((n) => [n.id, n]));
    for (const node of nodes) {
      const parents = node.parents.map((id) => byId.get(id)).filter((p) => p && p.depth !== undefined);
      node.depth = parents.length ? Math.max(...parents.map((p) => p.depth)) + 1 : 0;
    }
    const layers = d3.groups(nodes, (n) => n.depth).sort((a, b) => a[0] - b[0]);
    for (const [, layer] of layers) {
      layer.forEach((node, i) => {
        const parents = node.parents.map((id) => byId.get(id)).filter(Boolean);
        node.want = parents.length ? d3.mean(parents, (p) => p.row) : i;
      });
      layer.sort((a, b) => a.want - b.want || a.id - b.id);
      let row = -1;
      for (const node of layer) row = node.row = Math.max(row + 1, node.want);
    }
    return byId;
  }

  function graph(figure, data) {
    const nodes = data.nodes;
    const byId = place(nodes);
    const rows = nodes.length ? d3.max(nodes, (n) => n.row) + 1 : 1;
    const depths = nodes.length ? d3.max(nodes, (n) => n.depth) + 1 : 1;
    const stepX = Math.max(120, Math.min(200, 640 / depths)), stepY = 58;
    const width = Math.max(room(figure), depths * stepX + 60), height = rows * stepY + 30;
    const svg = canvas(figure, width, height, "Design graph");
    if (width > room(figure)) svg.style("width", `${width}px`);
    if (!nodes.length) {
      svg.append("text").attr("class", "soft").attr("x", width / 2).attr("y", height / 2)
        .attr("text-anchor", "middle").text("no designs yet");
      return;
    }
    const x = (n) => 40 + n.depth * stepX, y = (n) => 28 + n.row * stepY;
    const scene = svg.append("g");
    svg.call(d3.zoom().scaleExtent([0.3, 4]).filter((e) => e.type !== "wheel" || e.ctrlKey)
      .on("zoom", (e) => scene.attr("transform", e.transform)));
    const edges = nodes.flatMap((n) => n.parents.map((id, i) => ({ from: byId.get(id), to: n, second: i > 0 })));
    scene.selectAll(".edge").data(edges).join("path")
      .attr("class", (e) => `edge${e.second ? " second" : ""}${e.from.lineage && e.to.lineage ? " lineage" : ""}`)
      .attr("d", (e) => d3.linkHorizontal()({ source: [x(e.from), y(e.from)], target: [x(e.to), y(e.to)] }));
    const exported = document.body.classList.contains("exported");
    const base = exported ? "#design-" : `${location.pathname.replace(/\/$/, "")}/designs/`;
    const spots = scene.selectAll(".node").data(nodes).join("a")
      .attr("class", (n) => ["node", n.state, n.speedup > 1 ? "faster" : "", n.best ? "best" : ""].join(" "))
      .attr("href", (n) => (n.written ? base + n.id : null))
      .attr("aria-label", (n) => `design ${n.id}, ${n.strategy}, ${n.state}${n.us ? `, ${micro(n.us)}` : ""}`)
      .attr("transform", (n) => `translate(${x(n)},${y(n)})`);
    spots.append("rect").attr("class", "hit").attr("x", -18).attr("y", -20).attr("height", 40).attr("width", stepX - 24);
    spots.append("circle").attr("r", 15);
    spots.append("text").attr("class", "inside").attr("text-anchor", "middle").attr("dy", "0.35em").text((n) => n.id);
    spots.append("text").attr("x", 20).attr("dy", "-0.1em")
      .text((n) => [n.us ? micro(n.us) : n.kind || n.state, n.best ? "best" : "", n.pinned ? "pinned" : "", n.accepted ? "yours" : ""].filter(Boolean).join(", "));
    spots.append("text").attr("class", "soft").attr("x", 20).attr("dy", "1.1em")
      .text((n) => (n.move.length > 18 ? `${n.move.slice(0, 17)}...` : n.move));
    spots.append("title").text((n) => `design ${n.id}: ${n.strategy}\n${n.move}; ${n.trials} judged`);
    legend(figure, [["faster than XLA", "is-faster"], ["accepted", "is-accepted"], ["refused", "is-refused"]]);
  }

  function ladder(figure, data) {
    const rungs = data.rungs, width = room(figure), row = 34, left = 110, right = 90;
    const svg = canvas(figure, width, rungs.length * row + 8, "Times side by side");
    const x = d3.scaleLinear([0, d3.max(rungs, (r) => r.us)], [0, width - left - right]);
    const line = svg.selectAll("g").data(rungs).join("g").attr("transform", (r, i) => `translate(0,${i * row + 4})`);
    line.append("text").attr("x", left - 8).attr("y", row / 2).attr("dy", "0.1em").attr("text-anchor", "end").text((r) => r.name);
    line.append("rect").attr("class", (r) => `bar-${r.kind}`).attr("x", left).attr("y", 5).attr("rx", 4)
      .attr("height", row - 14).attr("width", (r) => Math.max(2, x(r.us)));
    line.append("text").attr("x", (r) => left + x(r.us) + 6).attr("y", row / 2).attr("dy", "0.1em").text((r) => micro(r.us));
  }

  function timeline(figure, data) {
    const width = room(figure), row = 30, left = width < 480 ? 110 : 185, right = 70;
    const letters = Math.floor(left / 6.8);
    const rows = [];
    for (const op of data.ops) {
      rows.push({ ...op, name: op.calls > 1 ? `${op.name} x${op.calls}` : op.name });
      const parts = op.regions.filter((r) => r.us > 0.01 * data.us);
      if (parts.length < 2) continue;
      let at = op.start;
      for (const part of parts) {
        rows.push({ ...part, kind: op.kind, start: at, name: `${"  ".repeat(part.depth + 1)}${part.name}`, part: true });
        at += part.us;
      }
    }
    const svg = canvas(figure, width, rows.length * row + 30, "Time line");
    const x = d3.scaleLinear([0, data.us], [left, width - right]);
    svg.append("g").attr("class", "axis soft").attr("transform", `translate(0,${rows.length * row + 4})`)
      .call(d3.axisBottom(x).ticks(width < 480 ? 3 : 5).tickFormat(micro));
    const line = svg.selectAll(".op").data(rows).join("g").attr("class", "op").attr("transform", (r, i) => `translate(0,${i * row})`);
    line.append("text").attr("class", (r) => (r.part ? "soft" : "")).attr("x", left - 8).attr("y", 18).attr("text-anchor", "end")
      .text((r) => (r.name.length > letters ? `${r.name.slice(0, letters - 2)}...` : r.name));
    const wide = (us) => Math.max(us > 0 ? 1 : 0, x(us) - x(0));
    line.append("rect").attr("class", (r) => ({ kernel: "work", xla: "xla-op", glue: "glue" })[r.kind])
      .attr("x", (r) => x(r.start)).attr("y", 6).attr("height", 17).attr("width", (r) => wide(r.us - r.stall));
    line.append("rect").attr("class", "stall").attr("x", (r) => x(r.start + r.us - r.stall)).attr("y", 6)
      .attr("height", 17).attr("width", (r) => wide(r.stall));
    line.append("text").attr("class", "soft").attr("x", (r) => Math.min(x(r.start + r.us) + 6, width - right + 6)).attr("y", 18)
      .text((r) => micro(r.us));
    line.append("title").text((r) => `${r.name}: ${micro(r.us)}, of which ${micro(r.stall)} waiting for HBM`);
    legend(figure, [["kernel works", "work"], ["XLA operation works", "xla-op"], ["waits for HBM", "stall"]]);
  }

  function roofline(figure, data) {
    const width = room(figure), height = 300, left = 70, right = 20, top = 16, bottom = 38;
    const svg = canvas(figure, width, height, "Roofline");
    const ridge = data.peak / data.bandwidth;
    const xs = data.points.map((p) => p.x).concat([ridge]);
    const low = d3.min(xs) / 4, high = d3.max(xs) * 4;
    const x = d3.scaleLog([low, high], [left, width - right]);
    const y = d3.scaleLog([Math.min(d3.min(data.points, (p) => p.y), low * data.bandwidth) / 2, data.peak * 2], [height - bottom, top]);
    const tera = (v) => `${d3.format(".3~r")(v / 1e12)} T`;
    const round = (axis) => axis.ticks(8).filter((v) => /^[125]0*$/.test(String(v).replace(/^0\.0*/, "")));
    svg.append("g").attr("class", "axis soft").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).tickValues(round(x)).tickFormat(d3.format("~s")));
    svg.append("g").attr("class", "axis soft").attr("transform", `translate(${left},0)`).call(d3.axisLeft(y).tickValues(round(y)).tickFormat(tera));
    svg.append("path").attr("class", "bound").attr("fill", "none").attr("stroke-width", 2.2)
      .attr("d", `M${x(low)},${y(low * data.bandwidth)}L${x(ridge)},${y(data.peak)}L${x(high)},${y(data.peak)}`);
    svg.append("text").attr("class", "bound").attr("x", width - right).attr("y", y(data.peak) - 6).attr("text-anchor", "end")
      .text(`${tera(data.peak)}FLOP/s, peak of ${data.target}`);
    svg.append("text").attr("class", "soft").attr("x", width - right).attr("y", height - 4).attr("text-anchor", "end").text("FLOP per byte of HBM");
    const dots = svg.selectAll(".spot").data(data.points).join("g").attr("class", "spot");
    dots.append("circle").attr("class", (p) => `bar-${p.kind}`).attr("cx", (p) => x(p.x)).attr("cy", (p) => y(p.y)).attr("r", 6);
    const end = (p) => x(p.x) > (left + width) / 2;
    dots.append("text").attr("x", (p) => x(p.x) + (end(p) ? -9 : 9))
      .attr("y", (p) => y(p.y) + (p.kind === "kernel" ? 18 : -9))
      .attr("text-anchor", (p) => (end(p) ? "end" : "start")).text((p) => `${p.name} ${tera(p.y)}FLOP/s`);
  }

  const kinds = { curve, graph, ladder, timeline, roofline };

  const shown = new WeakMap();

  function draw(figure, data) {
    shown.set(figure, { data, width: figure.clientWidth });
    kinds[figure.dataset.picture](figure, data);
  }

  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const last = shown.get(target);
      if (last && target.clientWidth && last.width !== target.clientWidth) draw(target, last.data);
    }
  });

  function drawAll() {
    for (const figure of document.querySelectorAll("figure[data-picture]")) {
      draw(figure, JSON.parse(figure.querySelector("script").textContent));
      watcher.observe(figure);
    }
  }

  const drawn = new WeakMap();

  async function refresh() {
    for (const figure of document.querySelectorAll("figure[data-source]")) {
      const answer = await fetch(figure.dataset.source);
      const text = answer.ok ? await answer.text() : "";
      if (!text || text === drawn.get(figure)) continue;
      drawn.set(figure, text);
      draw(figure, JSON.parse(text));
    }
  }

  window.maxkernelCharts = { drawAll, refresh };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", drawAll);
  else drawAll();
})();

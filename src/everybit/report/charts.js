// The timelines, drawn with uPlot: shared zoom and cursor, findings on them, log scales, keys.
(function () {
  "use strict";
  var holder = document.getElementById("timelines-data");
  if (!holder || !window.uPlot) return;
  var data = JSON.parse(holder.textContent);
  var words = JSON.parse(document.getElementById("words").textContent);
  var root = document.documentElement;
  var LEFT = 62, RIGHT = 12;  // pixels beside a plot, the same for all: their steps stand in line
  var LIMIT = 1e300;  // differences of two values stay finite
  var GRAVITY = { error: 0, warning: 1, note: 2 };

  function bytes(text) {
    var raw = atob(text), made = new Uint8Array(raw.length);
    for (var at = 0; at < raw.length; at++) made[at] = raw.charCodeAt(at);
    return made.buffer;
  }
  function language() { return root.dataset.lang === "zh" ? 1 : 0; }
  function say(key, values) {
    return words[key][language()].replace(/\{(\w+)\}/g, function (_, name) { return values[name]; });
  }
  function color(name) { return getComputedStyle(root).getPropertyValue("--" + name).trim(); }
  var palette = {};
  function readPalette() {
    ["soft", "rule", "ink", "ground", "panel", "error", "warning", "note", "accent"].forEach(function (name) { palette[name] = color(name); });
    for (var at = 0; at < 8; at++) palette["s" + at] = color("s" + at);
  }
  function whole(value) { return Math.round(value).toLocaleString("en-US"); }
  function short(value) {
    if (value === 0) return "0";
    var size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
    return size >= 1e4 ? Math.round(value).toLocaleString("en-US") : String(+value.toPrecision(4));
  }

  // Steps. A stretch is drawn at its middle.
  var places = data.steps ? new Uint32Array(bytes(data.steps)) : null;
  var count = places ? places.length : data.size;
  var steps = new Array(count);
  for (var at = 0; at < count; at++) steps[at] = data.first + (places ? places[at] : at) * data.width + (data.width - 1) / 2;
  var first = steps[0], last = steps[count - 1];
  if (first === last) { first -= 1; last += 1; }
  var view = [first, last];

  // Where nothing is on record a value is NaN, and the line goes on; `gaps` have nothing finite.
  function decode(text, wide) {
    return wide ? new Float64Array(bytes(text)) : new Float32Array(bytes(text));
  }
  // What a plot of so many pixels can show of the steps in view: neighbours become a mean and a band.
  function fold(pixels) {
    var from = Math.max(nearest(view[0]) - 1, 0), to = Math.min(nearest(view[1]) + 1, count - 1);
    var each = Math.max(1, Math.ceil((to - from + 1) / Math.max(pixels, 60)));
    var groups = [];
    for (var start = Math.floor(from / each) * each; start <= to; start += each) groups.push([start, Math.min(start + each, count)]);
    return { each: each, groups: groups, steps: groups.map(function (g) { return (steps[g[0]] + steps[g[1] - 1]) / 2; }) };
  }
  function clip(value) {
    if (value !== 0 && Math.abs(value) < 1 / LIMIT) return value < 0 ? -1 / LIMIT : 1 / LIMIT;
    return Math.max(-LIMIT, Math.min(LIMIT, value));
  }
  function columns(series, folded, log) {
    var mean = [], low = [], high = [];
    folded.groups.forEach(function (group, index) {
      var sum = 0, n = 0, least = Infinity, most = -Infinity, gap = false;
      for (var at = group[0]; at < group[1]; at++) {
        var value = series.mean[at];
        if (value !== value || (log && value <= 0)) { gap = gap || series.gap[at]; continue; }
        value = clip(value);
        n += 1;
        sum += (value - sum) / n;
        var bottom = clip(series.low[at]), top = clip(series.high[at]);
        if (bottom < least && !(log && bottom <= 0)) least = bottom;
        if (top > most) most = top;
      }
      if (n) { mean[index] = sum; low[index] = Math.min(least, sum); high[index] = Math.max(most, sum); }
      else mean[index] = low[index] = high[index] = gap ? null : undefined;
    });
    return { mean: mean, low: low, high: high };
  }

  // Round ticks of our own: no value that a record can hold makes these loop.
  function ticks(low, high, wanted) {
    var span = (high - low) / wanted;
    if (!(span > 0) || !isFinite(span)) return [low];
    var power = Math.pow(10, Math.floor(Math.log10(span)));
    var stride = [1, 2, 2.5, 5, 10].map(function (m) { return m * power; }).find(function (s) { return s >= span * 0.8; }) || 10 * power;
    var made = [];
    for (var k = Math.ceil(low / stride - 1e-9), n = 0; k * stride <= high * (1 + 1e-12) + stride * 1e-9 && n < 40; k++, n++) {
      made.push(+(k * stride).toPrecision(12));
    }
    return made.length ? made : [low];
  }
  function logTicks(low, high, wanted, base) {
    var made = [], from = Math.ceil(Math.log(low) / Math.log(base) - 1e-9), to = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
    var stride = Math.max(1, Math.ceil((to - from + 1) / wanted));
    for (var power = from; power <= to && made.length < 40; power += stride) made.push(+Math.pow(base, power).toPrecision(12));
    if (made.length >= 2) return made;
    for (var ten = Math.floor(Math.log10(low)), end = ten + 12; ten <= Math.log10(high) && ten < end; ten++) {
      [1, 2, 5].forEach(function (m) { var tick = m * Math.pow(10, ten); if (tick >= low && tick <= high && made.indexOf(tick) < 0) made.push(tick); });
    }
    made.sort(function (a, b) { return a - b; });
    return made.length >= 2 ? made : ticks(low, high, wanted).filter(function (tick) { return tick > 0; });
  }

  // Findings by step, the gravest first.
  var marks = data.findings.map(function (f) { return { step: f[0], severity: f[1], anchor: f[2], rule: f[3], exact: f[4] }; });

  var charts = [];
  function Chart(element, told, index) {
    this.element = element;
    this.told = told;
    this.index = index;
    this.plot = element.querySelector(".plot");
    this.button = element.querySelector("button.log");
    this.list = element.querySelector(".values");
    this.log = told.log;
    this.at = null;
    this.series = told.series.map(function (s) {
      var mean = decode(s.mean, s.wide), gap = new Uint8Array(count);
      s.gaps.forEach(function (place) { gap[place] = 1; });
      return { line: s.line, mean: mean, low: s.low ? decode(s.low, s.wide) : mean, high: s.high ? decode(s.high, s.wide) : mean, gap: gap };
    });
    this.gaps = [];
    for (var place = 0, runs = this.gaps; place < count; place++) {
      if (!this.series.some(function (s) { return s.gap[place]; })) continue;
      if (runs.length && runs[runs.length - 1][1] === place - 1) runs[runs.length - 1][1] = place;
      else runs.push([place, place]);
    }
    if (!this.series.some(function (s) { return s.high.some(function (v) { return v > 0; }); })) {
      this.log = false;
      this.button.disabled = true;
    }
    this.button.setAttribute("aria-pressed", String(this.log));
    this.make();
    var chart = this;
    this.button.addEventListener("click", function () {
      chart.log = !chart.log;
      chart.button.setAttribute("aria-pressed", String(chart.log));
      chart.make();
    });
    this.plot.addEventListener("keydown", function (event) { keys(chart, event); });
    this.plot.addEventListener("blur", function () { show(null); });
  }
  Chart.prototype.height = function () { return this.index ? 132 : 236; };
  Chart.prototype.data = function () {
    var folded = this.folded = fold(this.plot.clientWidth - LEFT - RIGHT), made = [folded.steps], chart = this;
    this.lines.forEach(function (line, index) {
      line.shown = columns(chart.series[index], folded, chart.log);
      made.push(line.shown.mean, line.shown.high, line.shown.low);
    });
    return made;
  };
  Chart.prototype.make = function () {
    var chart = this, series = [{}], bands = [];
    if (this.u) this.u.destroy();
    this.lines = this.series.map(function (s, index) {
      var line = data.lines[s.line], name = "s" + s.line % 8;
      // The band's edge: a spike of one step is as thin as a line.
      var alone = chart.series.length === 1;
      var edge = function () { return alone && (chart.folded.each > 1 || s.low !== s.mean) ? palette[name] + "66" : "transparent"; };
      series.push(
        { stroke: function () { return palette[name]; }, width: 1.5, dash: line.older ? [5, 4] : undefined, points: { show: count < 3 } },
        { stroke: edge, width: 1, points: { show: false } },
        { stroke: edge, width: 1, points: { show: false } }
      );
      bands.push({ series: [3 * index + 2, 3 * index + 3], fill: function () { return palette[name] + (alone ? "40" : "24"); } });
      return { name: line.name, color: name, older: line.older };
    });
    var font = "12px " + getComputedStyle(document.body).fontFamily;
    var axis = { stroke: function () { return palette.soft; }, font: font, grid: { stroke: function () { return palette.rule; }, width: 1 }, ticks: { show: false } };
    this.u = new uPlot({
      width: this.plot.clientWidth, height: this.height(),
      legend: { show: false }, padding: [8, RIGHT, 0, 0],
      scales: {
        x: { time: false, range: function () { return view; } },
        y: { distr: this.log ? 3 : 1, range: function (u, low, high) { return extent(low, high, chart.log); } },
      },
      axes: [
        Object.assign({ size: 26, gap: 6, incrs: big, splits: function (u, a, low, high) { return ticks(low, high, Math.max(2, u.bbox.width / devicePixelRatio / 85)).filter(Number.isInteger); }, values: function (u, made) { return made.map(whole); } }, axis),
        Object.assign({ size: LEFT, gap: 6, incrs: big, splits: function (u, a, low, high) { var wanted = chart.index ? 3 : 5; return chart.log ? logTicks(low, high, wanted, chart.told.key === "scale" ? 2 : 10) : ticks(low, high, wanted); }, filter: function (u, made) { return made; }, values: function (u, made) { return made.map(short); } }, axis),
      ],
      series: series, bands: bands,
      cursor: {
        y: false, drag: { x: true, y: false, setScale: false }, points: { size: 7, width: 1.5 },
        bind: { dblclick: function () { return function () { zoom(first, last); }; } },
      },
      hooks: {
        setCursor: [function (u) { if (!chart.echo) show(u.cursor.left >= 0 && u.cursor.idx !== null ? chart.folded.steps[u.cursor.idx] : null, chart); }],
        setSelect: [function (u) {
          if (u.select.width > 4) zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        }],
        drawClear: [function (u) { shade(u, chart); }],
        draw: [function (u) { annotate(u, chart); }],
      },
    }, this.data(), this.plot);
    this.tell(this.at);
  };
  // Before each layout uPlot asks for an increment; ticks are our own, so any large one will do.
  function big(u, axis, low, high) { return [Math.max(high - low, 5)]; }
  Chart.prototype.place = function (step) {
    var all = this.folded.steps, low = 0, high = all.length - 1;
    while (low < high) { var middle = (low + high) >> 1; if (all[middle] < step) low = middle + 1; else high = middle; }
    return low > 0 && step - all[low - 1] < all[low] - step ? low - 1 : low;
  };
  Chart.prototype.tell = function (step) {
    var chart = this, many = this.lines.length > 1;
    this.at = step;
    this.list.replaceChildren.apply(this.list, (this.index && step === null ? [] : this.lines).map(function (line) {
      var item = document.createElement("li"), name = document.createElement("span"), value = document.createElement("b");
      if (many) {
        var key = document.createElement("i");
        key.className = "swatch " + line.color + (line.older ? " older" : "");
        // Names stand above the first chart; the others repeat the colours.
        name.textContent = chart.index ? "" : line.name[language()];
        item.append(key);
      }
      value.textContent = step === null ? "" : chart.value(line, chart.place(step));
      item.append(name, value);
      return item;
    }));
  };
  Chart.prototype.value = function (line, place) {
    var mean = line.shown.mean[place], low = line.shown.low[place], high = line.shown.high[place];
    if (mean === null) return say("chart.not_finite", {});
    if (mean === undefined) return "-";
    return short(low) === short(high) ? short(mean) : short(mean) + " (" + short(low) + " - " + short(high) + ")";
  };

  function extent(low, high, log) {
    if (low === null || !isFinite(low) || !isFinite(high)) return log ? [1, 10] : [0, 1];
    if (log) return low === high ? [low / 2, high * 2] : [low / Math.pow(high / low, 0.05), high * Math.pow(high / low, 0.05)];
    var pad = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06;
    // What is never negative gets an axis that is not either.
    return [low >= 0 ? Math.max(low - pad, 0) : low - pad, high + pad];
  }

  // Behind the lines: stretches with nothing finite, and the steps of findings.
  function shade(u, chart) {
    var ctx = u.ctx, box = u.bbox;
    ctx.save();
    ctx.beginPath(); ctx.rect(box.left, box.top, box.width, box.height); ctx.clip();
    ctx.fillStyle = palette.error; ctx.globalAlpha = 0.16;
    chart.gaps.forEach(function (run) {
      if (steps[run[1]] < view[0] - data.width || steps[run[0]] > view[1] + data.width) return;
      var left = u.valToPos(steps[run[0]] - data.width / 2, "x", true), right = u.valToPos(steps[run[1]] + data.width / 2, "x", true);
      var width = Math.max(right - left, 2 * devicePixelRatio);
      ctx.fillRect((left + right - width) / 2, box.top, width, box.height);
    });
    ctx.restore();
  }
  function annotate(u, chart) {
    var ctx = u.ctx, box = u.bbox, unit = devicePixelRatio;
    ctx.save();
    ctx.beginPath(); ctx.rect(box.left, box.top, box.width, box.height); ctx.clip();
    for (var at = Math.min(marks.length, 600) - 1; at >= 0; at--) {
      var mark = marks[at];
      if (mark.step < view[0] || mark.step > view[1]) continue;
      var x = Math.round(u.valToPos(mark.step, "x", true));
      ctx.strokeStyle = palette[mark.severity]; ctx.lineWidth = unit; ctx.setLineDash([4 * unit, 3 * unit]);
      ctx.beginPath(); ctx.moveTo(x, box.top); ctx.lineTo(x, box.top + box.height); ctx.stroke();
      ctx.setLineDash([]);
      mark.exact[chart.index].forEach(function (found) {
        var value = found[1];
        if (value === null || (chart.log && value <= 0)) return;
        var y = u.valToPos(clip(value), "y", true);
        ctx.beginPath(); ctx.arc(x, y, 3.5 * unit, 0, 2 * Math.PI);
        ctx.fillStyle = palette[mark.severity]; ctx.fill();
        ctx.strokeStyle = palette.panel; ctx.lineWidth = 1.5 * unit; ctx.stroke();
      });
    }
    ctx.restore();
  }

  // The step under the pointer or the keys, on every chart.
  var range = document.getElementById("range"), heard = document.getElementById("heard"), current = null;
  function show(step, source) {
    current = step;
    charts.forEach(function (chart) {
      chart.tell(step);
      if (chart === source) return;
      chart.echo = true;
      chart.u.setCursor({ left: step === null ? -10 : chart.u.valToPos(step, "x"), top: -10 }, true);
      chart.echo = false;
    });
    label();
  }
  function label() {
    var low = Math.max(view[0], data.first), high = Math.min(view[1], steps[count - 1] + (data.width - 1) / 2);
    var span = say("range", { first: whole(low), last: whole(high) });
    var text = view[0] === first && view[1] === last ? say("chart.all", {}) + " · " + span : span;
    if (current !== null && charts.length) text = charts[0].stretch(charts[0].place(current));
    range.textContent = text;
  }
  Chart.prototype.stretch = function (place) {
    var group = this.folded.groups[place];
    var low = steps[group[0]] - (data.width - 1) / 2, high = steps[group[1] - 1] + (data.width - 1) / 2;
    if (low === high) return say("chart.at", { step: whole(low) });
    return say("chart.at.steps", { first: whole(low), last: whole(high) });
  };

  function zoom(low, high) {
    var least = Math.max(2 * data.width, 4);
    low = Math.max(low, first); high = Math.min(high, last);
    if (high - low < least && last - first > least) {
      var middle = Math.min(Math.max((low + high) / 2, first + least / 2), last - least / 2);
      low = middle - least / 2; high = middle + least / 2;
    }
    if (!(high > low)) { low = first; high = last; }
    view = [low, high];
    charts.forEach(function (chart) { chart.u.setData(chart.data(), true); });
    mark();
    label();
  }
  function scale(factor) {
    var middle = current === null ? (view[0] + view[1]) / 2 : current;
    var left = middle - (middle - view[0]) * factor;
    zoom(left, left + (view[1] - view[0]) * factor);
  }
  function nearest(step) {
    var low = 0, high = count - 1;
    while (low < high) { var middle = (low + high) >> 1; if (steps[middle] < step) low = middle + 1; else high = middle; }
    return low;
  }
  function keys(chart, event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    var all = chart.folded.steps, from = chart.place(view[0]), to = chart.place(view[1]);
    var stride = event.shiftKey ? Math.max(1, Math.round((to - from) / 10)) : 1;
    var at = current === null ? null : Math.min(Math.max(chart.place(current), from), to);
    if (event.key === "ArrowRight") at = at === null ? from : Math.min(at + stride, to);
    else if (event.key === "ArrowLeft") at = at === null ? to : Math.max(at - stride, from);
    else if (event.key === "Home") at = from;
    else if (event.key === "End") at = to;
    else if (event.key === "+" || event.key === "=") { event.preventDefault(); scale(0.5); return; }
    else if (event.key === "-") { event.preventDefault(); scale(2); return; }
    else if (event.key === "0" || event.key === "Escape") { zoom(first, last); return; }
    else return;
    event.preventDefault();
    show(all[at]);
    heard.textContent = chart.stretch(at) + ": " + chart.lines.map(function (line) {
      return (chart.lines.length > 1 ? line.name[language()] + " " : "") + chart.value(line, at);
    }).join(", ");
  }

  // Above the first chart: findings as links, those too near to tell apart as one.
  var lane = document.getElementById("markers");
  function mark() {
    if (!charts.length) return;
    var width = charts[0].plot.clientWidth - LEFT - RIGHT, groups = [];
    marks.filter(function (m) { return m.step >= view[0] && m.step <= view[1]; })
      .sort(function (a, b) { return a.step - b.step || GRAVITY[a.severity] - GRAVITY[b.severity]; })
      .forEach(function (m) {
        var x = LEFT + (m.step - view[0]) / (view[1] - view[0]) * width, group = groups[groups.length - 1];
        if (group && x - group.x < 26) { group.marks.push(m); return; }
        groups.push({ x: x, marks: [m] });
      });
    lane.replaceChildren.apply(lane, groups.map(function (group) {
      var gravest = group.marks.reduce(function (a, b) { return GRAVITY[b.severity] < GRAVITY[a.severity] ? b : a; });
      var item = document.createElement("li"), link = document.createElement("a");
      var more = group.marks.length - 1;
      var told = say(more ? "marker.more" : "marker", { rule: gravest.rule, step: whole(gravest.step), n: more });
      link.href = "#" + gravest.anchor;
      link.className = gravest.severity;
      link.textContent = more ? (more < 99 ? String(more + 1) : "99+") : "!";
      link.setAttribute("aria-label", told);
      link.title = told;
      item.style.left = group.x + "px";
      item.append(link);
      return item;
    }));
    lane.hidden = !groups.length;
  }

  readPalette();
  // Charts are made when they come near the view: a page opens as fast with seven as with one.
  var making = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) { if (entry.isIntersecting) entry.target.make(); });
  }, { rootMargin: "500px 0px" });
  var holders = data.charts.map(function (told, index) {
    var element = document.querySelector('[data-chart="' + told.key + '"]'), plot = element.querySelector(".plot");
    plot.tabIndex = 0;
    plot.setAttribute("role", "application");
    element.make = function () {
      making.unobserve(element);
      element.make = function () {};
      var chart = new Chart(element, told, index);
      if (index) charts.push(chart); else charts.unshift(chart);
      if (!index) mark();
    };
    plot.addEventListener("focus", function () { element.make(); });
    if (index) making.observe(element); else element.make();
    return element;
  });
  window.addEventListener("beforeprint", function () { holders.forEach(function (element) { element.make(); }); });
  document.querySelectorAll("[data-zoom]").forEach(function (button) {
    button.addEventListener("click", function () {
      if (button.dataset.zoom === "reset") zoom(first, last); else scale(button.dataset.zoom === "in" ? 0.5 : 2);
    });
  });
  document.addEventListener("everybit-theme", function () {
    readPalette();
    charts.forEach(function (chart) { chart.u.redraw(false); });
  });
  document.addEventListener("everybit-language", function () { mark(); label(); charts.forEach(function (chart) { chart.tell(chart.at); }); });
  function fit() {
    var changed = false;
    charts.forEach(function (chart) {
      var width = chart.plot.clientWidth;
      if (!width || width === chart.u.width) return;
      changed = true;
      chart.u.setSize({ width: width, height: chart.height() });
      chart.u.setData(chart.data(), true);
    });
    if (changed) mark();
  }
  new ResizeObserver(fit).observe(document.getElementById("charts"));
  label();
})();

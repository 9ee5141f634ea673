// Comfort only; the page reads without it: values under the pointer, everything unfolded for print.
(function () {
  "use strict";
  document.querySelectorAll(".plot").forEach(function (plot) {
    var holder = plot.querySelector("template.values");
    var readout = plot.querySelector(".readout");
    if (!holder || !readout) return;
    var lines = JSON.parse(holder.content.textContent);
    function nearest(points, step) {
      var low = 0, high = points.length - 1;
      while (low < high) {
        var middle = (low + high) >> 1;
        if (points[middle][1] < step) low = middle + 1; else high = middle;
      }
      if (low > 0 && step - points[low - 1][1] < points[low][0] - step) low -= 1;
      return points[low];
    }
    plot.querySelectorAll("svg.chart").forEach(function (svg) {
      var left = +svg.dataset.left, right = +svg.dataset.right;
      var first = +svg.dataset.first, last = +svg.dataset.last;
      var cursor = svg.querySelector(".cursor");
      function hide() {
        readout.textContent = "";
        cursor.setAttribute("class", "cursor");
      }
      svg.addEventListener("pointerleave", hide);
      svg.addEventListener("pointermove", function (event) {
        var box = svg.getBoundingClientRect();
        var x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
        var share = Math.min(Math.max((x - left) / (right - left), 0), 1);
        var step = first + share * (last - first);
        var told = [];
        lines.forEach(function (line) {
          var point = nearest(line[1], step);
          var steps = point[0] === point[1] ? "step " + point[0] : "steps " + point[0] + " to " + point[1];
          told.push((lines.length > 1 ? line[0] + ", " : "") + steps + ": " + point[2]);
        });
        readout.textContent = told.slice(0, 6).join("\n");
        var place = left + share * (right - left);
        cursor.setAttribute("x1", place);
        cursor.setAttribute("x2", place);
        cursor.setAttribute("class", "cursor on");
      });
    });
  });
  function reveal() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    for (var node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  reveal();
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (each) { each.open = true; });
  });
})();

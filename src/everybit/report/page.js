// Comfort only; the page reads without it: language and colours, copying, finding one's way.
(function () {
  "use strict";
  var root = document.documentElement;
  var words = JSON.parse(document.getElementById("words").textContent);
  var TAGS = { en: "en", zh: "zh-Hans" };

  function recall(key) {
    try { return localStorage.getItem("everybit-" + key); } catch (refused) { return null; }
  }
  function remember(key, value) {
    try { localStorage.setItem("everybit-" + key, value); } catch (refused) { /* a page on its own */ }
  }
  function each(selector, act) { Array.prototype.forEach.call(document.querySelectorAll(selector), act); }
  function press(selector, chosen) {
    each(selector, function (button) { button.setAttribute("aria-pressed", String(chosen(button))); });
  }
  function tell(event) { document.dispatchEvent(new Event(event)); }

  function speak(language) {
    root.lang = TAGS[language];
    root.dataset.lang = language;
    document.title = words.title[language === "zh" ? 1 : 0];
    press("[data-language]", function (button) { return button.dataset.language === language; });
    tell("everybit-language");
  }
  function paint(theme) {
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    press("[data-theme-to]", function (button) { return button.dataset.themeTo === theme; });
    tell("everybit-theme");
  }

  each("[data-language]", function (button) {
    button.addEventListener("click", function () {
      remember("language", button.dataset.language);
      speak(button.dataset.language);
    });
  });
  each("[data-theme-to]", function (button) {
    button.addEventListener("click", function () {
      remember("theme", button.dataset.themeTo);
      paint(button.dataset.themeTo);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { tell("everybit-theme"); });

  // Both languages are there; the style sheet shows one.
  function both(key) {
    return ["en", "zh"].map(function (language, index) {
      var span = document.createElement("span");
      span.className = "t";
      span.lang = TAGS[language];
      span.textContent = words[key][index];
      return span;
    });
  }
  each("pre.command", function (pre) {
    var holder = document.createElement("div");
    var button = document.createElement("button");
    var timer = 0;
    holder.className = "copyable";
    button.type = "button";
    button.append.apply(button, both("copy"));
    pre.replaceWith(holder);
    holder.append(pre, button);
    button.addEventListener("click", function () {
      var text = pre.textContent;
      function done() {
        button.replaceChildren.apply(button, both("copied"));
        clearTimeout(timer);
        timer = setTimeout(function () { button.replaceChildren.apply(button, both("copy")); }, 1600);
      }
      function select() {
        var range = document.createRange();
        range.selectNodeContents(pre);
        var selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
      }
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select); else select();
    });
  });

  // Where the reader is.
  var links = {};
  each(".bar nav a", function (link) { links[link.hash.slice(1)] = link; });
  if (window.IntersectionObserver) {
    var seen = new Set();
    var watcher = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) seen.add(entry.target.id); else seen.delete(entry.target.id);
      });
      var current = Object.keys(links).find(function (key) { return seen.has(key); });
      Object.keys(links).forEach(function (key) {
        if (key === current) links[key].setAttribute("aria-current", "true");
        else links[key].removeAttribute("aria-current");
      });
    }, { rootMargin: "-25% 0px -60% 0px" });
    Object.keys(links).forEach(function (key) {
      var section = document.getElementById(key);
      if (section) watcher.observe(section);
    });
  }

  function reveal() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    for (var node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    if (target) target.scrollIntoView();
  }
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", function () {
    // On paper: what the findings say; the numbers of the charts and all packages are for the screen.
    each("#findings details", function (part) { part.open = true; });
  });

  root.classList.add("scripts");
  paint(recall("theme") === "light" || recall("theme") === "dark" ? recall("theme") : "auto");
  speak(TAGS[recall("language")] ? recall("language") : /^zh/i.test(navigator.language) ? "zh" : "en");
  reveal();
})();

"use strict";
// A page that is one explorer.

document.addEventListener("DOMContentLoaded", () => {
  const main = document.getElementById("main");
  main.replaceChildren();
  put(document.getElementById("top"), "h1", { text: DATA.title });
  new Explorer(main, DATA.explorer);
  document.documentElement.dataset.ready = "yes";
});

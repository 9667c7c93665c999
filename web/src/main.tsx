// The page's entry: draws it and starts the engine.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { start } from "./model/store";
import { App } from "./ui/app";
import "./page.css";

const place = document.getElementById("page");
if (place) {
  place.textContent = "";
  render(<App />, place);
  void start();
}

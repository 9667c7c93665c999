// The page's entry: draws it and starts the engine.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { keepForOffline } from "./engine/offline";
import { start } from "./model/address";
import { App } from "./ui/app";
import "./page.css";

const place = document.getElementById("page");
if (place) {
  place.textContent = "";
  render(<App />, place);
  void start();
  void keepForOffline();
}

// A page on a web server works without it after the first visit: a service worker keeps its files. The page of
// `lasthop view` and the page of one file keep nothing.

import { FILES } from "./pool";

/** `lasthop view` says that it is the server (python/lasthop/view.py). */
function isHosted(): boolean {
  return /^https?:$/.test(location.protocol) && document.querySelector('meta[name="lasthop-server"]') === null && "serviceWorker" in navigator;
}

/** Keeps what the page has loaded. */
export async function keepForOffline(): Promise<void> {
  if (!isHosted()) return;
  const own = [...document.querySelectorAll<HTMLScriptElement | HTMLLinkElement>('script[src], link[rel="stylesheet"]')].map((element) => ("src" in element ? element.src : element.href));
  const files = ["./", location.href, ...own, ...FILES].map((file) => new URL(file, location.href).href.replace(/[?#].*/, ""));
  try {
    await navigator.serviceWorker.register("./keep.js");
    const { active } = await navigator.serviceWorker.ready;
    active?.postMessage({ keep: files });
  } catch {
    // Where it is not allowed, the page works with its server alone.
  }
}

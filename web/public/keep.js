// Keeps the files of the page, so that it opens without its server after the first visit. The page says which they are
// (src/engine/offline.ts); names of files have the hash of their content, so what is kept never is out of date, but for
// the page itself, which is asked for anew whenever the server can be reached.
// Another page on the same server, below another path, keeps its own.
const KEPT = `lasthop ${self.registration.scope}`;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("message", (event) => {
  const files = event.data?.keep;
  if (!Array.isArray(files)) return;
  const keep = async () => {
    const cache = await caches.open(KEPT);
    // The page itself may have been called by its folder and by its file.
    const old = (await cache.keys()).map((request) => request.url).filter((url) => !files.includes(url) && !/(\/|\.html)$/.test(url));
    for (const file of files) if (file.startsWith(self.registration.scope) && !(await cache.match(file))) await cache.add(file);
    for (const url of old) await cache.delete(url);
  };
  event.waitUntil(keep());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const plain = request.url.replace(/[?#].*/, "");
  if (request.method !== "GET" || !plain.startsWith(self.registration.scope)) return;
  const kept = async () => (await caches.open(KEPT)).match(plain);
  const answer = async () => {
    if (request.mode !== "navigate") return (await kept()) ?? fetch(request);
    try {
      const fresh = await fetch(request);
      if (fresh.ok) await (await caches.open(KEPT)).put(plain, fresh.clone());
      return fresh;
    } catch {
      return (await kept()) ?? Response.error();
    }
  };
  event.respondWith(answer());
});

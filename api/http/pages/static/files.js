// Suggestions for a path: files of events where the service may read them.

import { el, get } from "./dom.js";

export async function offerFiles(list) {
  const { files } = await get("/pages/files").catch(() => ({ files: [] })); // only suggestions
  list.replaceChildren(...files.map((path) => el("option", { value: path })));
}

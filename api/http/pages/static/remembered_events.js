// Which file of events was last used with a workload, in this browser: what forms offer first.

const key = (workload) => `sheaf.events.${workload}`;

export function rememberEvents(workload, path) {
  try {
    if (workload && path) localStorage.setItem(key(workload), path);
  } catch {
    // A browser that keeps nothing: the path is typed again.
  }
}

export function rememberedEvents(workload) {
  try {
    return localStorage.getItem(key(workload)) ?? "";
  } catch {
    return "";
  }
}

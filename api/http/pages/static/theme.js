// Before anything is painted: the theme that was chosen here, or else the system's own.
(() => {
  const kept = localStorage.getItem("sheaf-theme");
  if (kept) document.documentElement.dataset.theme = kept;
})();

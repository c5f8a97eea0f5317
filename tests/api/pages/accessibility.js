// Each rule gives what breaks it, as texts. The body of a function, which the driver runs in a page.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const seen = (e) => e.checkVisibility({ visibilityProperty: true });
const shown = (e) => e.outerHTML.slice(0, 120);
const byId = (id) => document.getElementById(id);
const CONTROLS = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=option]';
const words = (e) => (e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') ?? '').split(' ')
  .map((id) => byId(id)?.textContent ?? '').join(' ') || e.textContent || e.getAttribute('title')
  || all('img[alt]', e).map((i) => i.alt).join(' ') || [...(e.labels ?? [])].map((l) => l.textContent).join(' ')).trim();
const rules = {
  'page-has-title-and-language': () => [document.title, document.documentElement.lang].some((t) => !t.trim()) ? ['html'] : [],
  'one-main': () => all('main').length === 1 ? [] : ['main'],
  'one-h1': () => all('h1').filter(seen).length === 1 ? [] : ['h1'],
  'heading-order': () => {
    let last = 0;
    return all('h1, h2, h3, h4').filter(seen).filter((e) => {
      const level = Number(e.tagName[1]);
      const skips = level > last + 1;
      last = level;
      return skips;
    }).map(shown);
  },
  'duplicate-id': () => all('[id]').map((e) => e.id).filter((id, i, ids) => ids.indexOf(id) !== i),
  'reference-to-nothing': () => ['aria-controls', 'aria-labelledby', 'aria-describedby', 'aria-activedescendant', 'for', 'list']
    .flatMap((name) => all(`[${name}]`).filter((e) => e.getAttribute(name).split(' ').some((id) => !byId(id)))).map(shown),
  'control-without-name': () => all(CONTROLS).filter((e) => seen(e) && !words(e)).map(shown),
  'field-without-label': () => all('input:not([type=hidden]), select, textarea')
    .filter((e) => !e.labels?.length && !e.ariaLabel && !e.getAttribute('aria-labelledby')).map(shown),
  'image-without-text': () => all('img:not([alt]), [role=img]:not([aria-label]):not([aria-labelledby])').map(shown),
  'drawing-without-role': () => all('main svg').filter((e) => seen(e) && !e.closest('[aria-hidden=true], [role=img], [role=progressbar], svg svg')
    && !e.ariaLabel && !e.getAttribute('role')).map(shown),
  'header-without-scope': () => all('th:not([scope])').map(shown),
  'nested-controls': () => all(CONTROLS).filter((e) => e.parentElement.closest('a[href], button, summary')).map(shown),
  'order-of-focus': () => all('[tabindex]').filter((e) => Number(e.getAttribute('tabindex')) > 0).map(shown),
  'scrolls-without-focus': () => all('main *').filter((e) => seen(e) && !e.closest('svg, textarea, select')
    && ['auto', 'scroll'].some((how) => [getComputedStyle(e).overflowX, getComputedStyle(e).overflowY].includes(how))
    && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)
    && e.tabIndex < 0 && !all(`${CONTROLS}, [tabindex="0"]`, e).some(seen)).map(shown),
  'state-without-value': () => all('[aria-expanded], [aria-pressed], [aria-selected], [aria-hidden], [aria-busy]')
    .filter((e) => ['expanded', 'pressed', 'selected', 'hidden', 'busy']
      .some((name) => e.hasAttribute(`aria-${name}`) && !['true', 'false', 'mixed'].includes(e.getAttribute(`aria-${name}`)))).map(shown),
  'list-of-other-things': () => all('ul, ol').filter((e) => [...e.children].some((c) => c.tagName !== 'LI')).map(shown),
};
return Object.entries(rules).flatMap(([name, rule]) => rule().slice(0, 3).map((found) => `${name}: ${found}`));

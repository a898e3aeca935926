// Tables that scroll are reached by a key. The theme wraps them once a page is there.
const reach = () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0;
};
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
reach();

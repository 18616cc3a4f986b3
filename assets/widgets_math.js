// ipywidgets asks MathJax 2's Hub to typeset each label of a control. MathJax 3 has no
// Hub, so that on a page with formulas and controls the call would fail. Our labels
// hold no formulas: a Hub that does nothing will do, on whatever is called MathJax.
let mathJax = window.MathJax;
Object.defineProperty(window, "MathJax", {
  configurable: true,
  get: () => mathJax,
  set(value) {
    mathJax = Object.assign(value, { Hub: { Queue() {} } });
  },
});

/* Paper is light and cannot be clicked: while a page is printed, the dark theme gives
   way to the light one, and solutions and answers stand open. */
{
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let undo = null;

  const chosenTheme = () => {
    const mode = root.dataset.mode;
    if (mode === "light" || mode === "dark") return mode;
    return dark.matches ? "dark" : "light";
  };
  const prepare = () => {
    const closed = document.querySelectorAll("details.sd-dropdown:not([open])");
    const hidden = document.querySelectorAll(".admonition.toggle-hidden");
    root.dataset.theme = "light";
    closed.forEach((box) => (box.open = true));
    hidden.forEach((box) => box.classList.remove("toggle-hidden"));
    undo = () => {
      root.dataset.theme = chosenTheme();
      closed.forEach((box) => (box.open = false));
      hidden.forEach((box) => box.classList.add("toggle-hidden"));
    };
  };
  const turn = (printing) => {
    if (printing && !undo) prepare();
    if (!printing && undo) {
      undo();
      undo = null;
    }
  };

  matchMedia("print").addEventListener("change", (event) => turn(event.matches));
  addEventListener("beforeprint", () => turn(true));
  addEventListener("afterprint", () => turn(false));
}

// Marked ranges of text: a highlight of the browser, else a class on the blocks of the text.

/** What is marked under one name. */
export class Marker {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    /** @type {Element[]} */
    this.blocks = [];
    this.highlight = typeof Highlight === "function" && CSS.highlights ? new Highlight() : null;
    if (this.highlight) CSS.highlights.set(name, this.highlight);
  }

  /** @param {Range[]} ranges */
  set(ranges) {
    this.clear();
    if (this.highlight) {
      for (const range of ranges) this.highlight.add(range.cloneRange());
      return;
    }
    this.blocks = ranges.flatMap((range) => range.endContainer.parentElement ?? []);
    for (const block of this.blocks) block.classList.add(this.name);
  }

  clear() {
    this.highlight?.clear();
    for (const block of this.blocks) block.classList.remove(this.name);
    this.blocks = [];
  }
}

// The pointer on the lanes: it drags the playhead, moves and zooms what is shown, chooses an event, says what it is at.

import { el, fill } from "../dom.js";
import { duration } from "../format.js";
import { RULER } from "./lanes_view.js";

/**
 * @typedef {object} LanesPointerOptions
 * @property {import("./lanes_view.js").LanesView} view
 * @property {HTMLElement} scroller the element that the lanes scroll in
 * @property {HTMLElement} plot the element of the lanes that listens
 * @property {HTMLElement} picture from whose corner x and y are counted
 * @property {(t: number) => void} drag the playhead is dragged to a time
 * @property {(index: number) => void} choose an event is chosen
 * @property {() => void} hovered the pointer is at another event
 */

/** What the pointer does and shows. */
export class LanesPointer {
  /** @param {LanesPointerOptions} options */
  constructor(options) {
    this.options = options;
    this.view = options.view;
    /** The event that it is at; -1 if there is none. */
    this.index = -1;
    this.isDragging = false;
    this.tip = el("div", { class: "lanes-tip", hidden: true });
    this.#listen();
  }

  #listen() {
    const { plot, picture, scroller, drag, choose } = this.options;
    const { view } = this;
    let panFrom = -1;
    const at = (/** @type {MouseEvent} */ event) => {
      const box = picture.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      const { x, y } = at(event);
      plot.setPointerCapture(event.pointerId);
      if (event.button === 1 || y < RULER) panFrom = view.placeAt(x);
      else {
        this.isDragging = true;
        const index = view.eventAt(x, y);
        if (index >= 0) choose(index);
        else drag(view.timeAt(x));
      }
    });
    plot.addEventListener("pointermove", (event) => {
      const { x, y } = at(event);
      if (this.isDragging) drag(view.timeAt(Math.min(view.width, Math.max(0, x))));
      else if (panFrom >= 0) view.pull(panFrom, x);
      else this.#hover(x, y);
    });
    const stop = () => {
      this.isDragging = false;
      panFrom = -1;
    };
    plot.addEventListener("pointerup", stop);
    plot.addEventListener("pointercancel", stop);
    plot.addEventListener("pointerleave", () => this.#hover(-1, -1));
    plot.addEventListener(
      "wheel",
      (event) => {
        const isAcross = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
        // With more lanes than fit the wheel scrolls them, and Ctrl (what a pinch sends) zooms.
        if (!isAcross && !event.ctrlKey && scroller.scrollHeight > scroller.clientHeight + 1) return;
        event.preventDefault();
        if (isAcross) view.pan((event.deltaX || event.deltaY) / (view.width || 1));
        else view.zoom(Math.exp(-event.deltaY / 400), view.placeAt(at(event).x));
      },
      { passive: false },
    );
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #hover(x, y) {
    const { view, tip } = this;
    const { plot, scroller } = this.options;
    const isAway = x < 0;
    const index = isAway ? -1 : view.eventAt(x, y);
    const mark = isAway ? undefined : view.markAt(x, y);
    const block = isAway || index >= 0 ? undefined : view.blockAt(x, y);
    plot.classList.toggle("is-over", index >= 0);
    if (this.index !== index) {
      this.index = index;
      this.options.hovered();
    }
    const shown = mark ? mark.index : index;
    tip.hidden = shown < 0 && !block;
    if (shown >= 0) this.#showEvent(shown, mark);
    else if (block) this.#showBlock(block);
    else return;
    const labels = plot.offsetLeft;
    const left = Math.min(x + labels + 12, scroller.clientWidth - tip.offsetWidth - 8);
    tip.style.setProperty("left", `${Math.max(0, left)}px`);
    tip.style.setProperty("top", `${y + view.scrolled + 16}px`);
  }

  /**
   * @param {number} index
   * @param {import("./findings.js").PlacedMark | undefined} mark
   */
  #showEvent(index, mark) {
    const { timeline } = this.view;
    const ticks = timeline.exchanges[timeline.slot[index]];
    const pos = timeline.pos[index];
    const place = `exchange ${ticks.number} · event ${pos} · ${duration(ticks.t[pos])}`;
    fill(
      this.tip,
      el("b", {}, timeline.typeOf(index)),
      el("span", { class: "num" }, place),
      el("span", { class: "num" }, `silence before: ${duration(timeline.silenceBefore(index))}`),
      mark
        ? el(
            "span",
            { class: mark.mark.severity === "error" ? "error" : "warn" },
            `${mark.mark.rule}: ${mark.mark.text}`,
          )
        : null,
    );
  }

  /** @param {Block} block */
  #showBlock(block) {
    const length = block.to_ns === null ? "open" : duration(block.to_ns - block.from_ns);
    fill(
      this.tip,
      el("b", {}, block.label || block.kind),
      el("span", { class: "num" }, `${this.view.names.get(block.exchange) ?? block.exchange} · from ${duration(block.from_ns)} · ${length}`),
    );
  }
}

// The keys of the player.

/** How long a second key may come after `g`. */
const SECOND_KEY_MS = 1200;
/** How much a press of a key or button changes the time that the lanes show. */
export const ZOOM = 1.6;

/** @type {[string, string][]} */
export const HELP = [
  ["Space", "Play or pause"],
  ["← → , .", "Previous, next event"],
  ["Shift+← Shift+→", "Previous, next item"],
  ["Home End", "Beginning, end; at the end an open session is followed"],
  ["j k", "Next, previous turn"],
  ["n p", "Next, previous finding"],
  ["0–9", "Tenths of the time"],
  ["+ -", "Zoom the lanes; Shift and the wheel moves them"],
  ["a z t", "Show all of the time, shorten silences, lanes as a table"],
  ["v", "Conversation as text or JSON"],
  ["Esc", "Clear what is chosen"],
  ["g s", "Go to the sessions"],
];

/** What each key does. */
export class Keys {
  /**
   * @param {import("./player.js").Player} player
   * @param {App} app
   */
  constructor(player, app) {
    this.player = player;
    this.app = app;
    this.isSecond = false;
    this.timer = 0;
  }

  close() {
    clearTimeout(this.timer);
  }

  /**
   * Return what a key does; undefined if it is none of the player's, or belongs to the element that has the focus.
   * @param {KeyboardEvent} event
   * @returns {(() => void) | undefined}
   */
  commandOf(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return undefined;
    const target = event.target instanceof Element ? event.target : null;
    if ((event.key === " " || event.key === "Enter") && target?.closest("button, a, summary, input, select")) {
      return undefined;
    }
    if (target?.closest("select, input") && event.key.startsWith("Arrow")) return undefined;
    if (this.isSecond) {
      this.isSecond = false;
      return event.key === "s" && !this.app.source.isFile ? () => this.app.go("#/sessions") : undefined;
    }
    const { player } = this;
    if (/^[0-9]$/.test(event.key)) return () => player.seekShare(Number(event.key) / 10);
    if (event.key === "Escape") {
      return player.lanes.picture.writers.length ? () => document.getSelection()?.removeAllRanges() : undefined;
    }
    // The slider has the keys of sliders.
    if (target === player.lanes.plot && event.key === "ArrowUp") return () => player.step(1);
    if (target === player.lanes.plot && event.key === "ArrowDown") return () => player.step(-1);
    return this.#commands(event.shiftKey)[event.key];
  }

  /**
   * @param {boolean} isShifted
   * @returns {Record<string, () => void>}
   */
  #commands(isShifted) {
    const { player } = this;
    const { clock } = player;
    return {
      " ": () => player.moved(() => clock.toggle()),
      ArrowLeft: () => (isShifted ? player.moved(() => clock.stepItem(-1)) : player.step(-1)),
      ArrowRight: () => (isShifted ? player.moved(() => clock.stepItem(1)) : player.step(1)),
      ",": () => player.step(-1),
      ".": () => player.step(1),
      k: () => player.stepTurn(-1),
      j: () => player.stepTurn(1),
      Home: () => player.moved(() => clock.seek(0)),
      End: () => player.toEnd(),
      n: () => player.findings.step(1),
      p: () => player.findings.step(-1),
      "+": () => player.zoom(ZOOM),
      "=": () => player.zoom(ZOOM),
      "-": () => player.zoom(1 / ZOOM),
      a: () => player.lanes.view.showAll(),
      z: () => player.transport.shorten.click(),
      t: () => player.transport.tableButton.click(),
      v: () => player.view.click(),
      g: () => {
        this.isSecond = true;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => (this.isSecond = false), SECOND_KEY_MS);
      },
    };
  }
}

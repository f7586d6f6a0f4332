// From text to events: what is selected in the conversation marks the events that wrote it.

/** The events that wrote the selected text. */
export class Writers {
  /** @param {import("./player.js").Player} player */
  constructor(player) {
    this.player = player;
    this.asked = 0;
  }

  /**
   * Mark the events that wrote some texts; none: no event.
   * @param {import("./conversation.js").ChosenText[]} chosen
   */
  async find(chosen) {
    const { clock, events, lanes, layout, timeline, tracks } = this.player;
    const mine = ++this.asked;
    const posOf = (/** @type {number} */ exchange) =>
      exchange === clock.exchange ? clock.pos : timeline.posAt(timeline.slotOf(exchange), clock.index);
    const { writers, isAll } = await tracks.writersOf(chosen, posOf);
    if (mine !== this.asked || this.player.isClosed) return;
    const indices = writers
      .map(({ exchange, pos }) => timeline.indexOf(timeline.slotOf(exchange), pos))
      .sort((a, b) => a - b);
    if (!indices.length && !lanes.picture.writers.length) return;
    lanes.picture.writers = indices;
    events.setWriters(indices);
    layout.showWriters(
      indices.map((index) => timeline.pos[index]),
      isAll,
    );
    if (indices.length) events.list.reveal(indices[0], "center");
    this.player.invalidate();
  }
}

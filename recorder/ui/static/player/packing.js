// Which lane each row of an exchange is drawn in: outputs that follow each other share one, so that sixteen searches are
// a line and not a staircase. Times in which the client works share lanes in the same way.

/** @typedef {{ kind: string, group: number, label: string }} Lane */
/** @template T @typedef {{ key: T, from: number, to: number }} Span */

/** The lanes as they are drawn. */
export class Packing {
  /** @param {import("./timeline.js").SessionTimeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {Map<number, number>[]} the lane of each row, by slot of the exchange */
    this.ofRows = [];
    /** @type {Map<Block, number>} */
    this.ofBlocks = new Map();
    const slots = new Map(timeline.exchanges.map(({ number }, slot) => [number, slot]));
    /** @type {Map<number, Block[]>} */
    const blocks = new Map(timeline.exchanges.map(({ number }) => [number, []]));
    for (const block of timeline.blocks) blocks.get(block.exchange)?.push(block);
    const items = timeline.exchanges.map((ticks) =>
      places(itemSpans(timeline, ticks, blocks.get(ticks.number) ?? [])),
    );
    const client = this.#clientPlaces();
    const groups = new Set(timeline.rows.map(({ group }) => group));
    for (const group of groups) this.#addGroup(group, items, client);
    for (const block of timeline.blocks) {
      const lane = this.ofRows[slots.get(block.exchange) ?? 0]?.get(block.row);
      if (lane !== undefined) this.ofBlocks.set(block, lane);
    }
  }

  /**
   * Return the lane of an event.
   * @param {number} index
   */
  laneOf(index) {
    const slot = this.timeline.slot[index];
    return this.ofRows[slot]?.get(this.timeline.exchanges[slot].row[this.timeline.pos[index]]) ?? 0;
  }

  /**
   * Return true if a lane is the first of another group than the one above it.
   * @param {number} lane
   */
  isFirstOfGroup(lane) {
    return lane > 0 && this.lanes[lane].group !== this.lanes[lane - 1].group;
  }

  /** Return the place of each block of the client's time among those of its group. */
  #clientPlaces() {
    const { blocks, rows } = this.timeline;
    /** @type {Map<number, Span<Block>[]>} */
    const spans = new Map();
    for (const block of blocks) {
      const row = rows[block.row];
      if (row?.kind !== "client") continue;
      const span = { key: block, from: this.timeline.startOf(block), to: this.timeline.endOf(block) };
      spans.set(row.group, [...(spans.get(row.group) ?? []), span]);
    }
    return new Map([...spans].map(([group, each]) => [group, places(each)]));
  }

  /**
   * @param {number} group
   * @param {Map<number, number>[]} items places of rows, by slot
   * @param {Map<number, Map<Block, number>>} client places of blocks, by group
   */
  #addGroup(group, items, client) {
    const { exchanges, rows } = this.timeline;
    const isOfGroup = (/** @type {number} */ row) => rows[row]?.group === group;
    const connection = this.#add("connection", group, 1);
    const own = items.map((each) => [...each].filter(([row]) => isOfGroup(row)));
    const first = this.#add("item", group, most(own.flatMap((each) => each.map(([, place]) => place))));
    const places = client.get(group);
    const firstOfClient = this.#add("client", group, places ? most([...places.values()]) : 0);
    for (const [block, place] of places ?? []) this.ofBlocks.set(block, firstOfClient + place);
    const connections = [...rows.keys()].filter((row) => isOfGroup(row) && rows[row].kind === "connection");
    for (const slot of exchanges.keys()) {
      const lanes = this.ofRows[slot] ?? new Map();
      for (const row of connections) lanes.set(row, connection);
      for (const [row, place] of own[slot]) lanes.set(row, first + place);
      this.ofRows[slot] = lanes;
    }
  }

  /**
   * Add lanes, and return the number of the first.
   * @param {string} kind
   * @param {number} group
   * @param {number} total
   */
  #add(kind, group, total) {
    const first = this.lanes.length;
    const label = kind === "item" ? "output" : kind;
    for (let place = 0; place < total; place++) {
      this.lanes.push({ kind, group, label: place ? `${label} ${place + 1}` : label });
    }
    return first;
  }
}

/**
 * Return the time that each row of items takes in an exchange: of its events, and of its blocks.
 * @param {import("./timeline.js").SessionTimeline} timeline
 * @param {ExchangeTicks} ticks
 * @param {Block[]} blocks
 */
function itemSpans(timeline, ticks, blocks) {
  /** @type {Map<number, Span<number>>} */
  const spans = new Map();
  const take = (/** @type {number} */ row, /** @type {number} */ from, /** @type {number} */ to) => {
    const span = spans.get(row);
    if (span) [span.from, span.to] = [Math.min(span.from, from), Math.max(span.to, to)];
    else if (timeline.rows[row]?.kind === "item") spans.set(row, { key: row, from, to });
  };
  const { row, t } = ticks;
  for (let pos = 0, end = 0; pos < row.length; pos = end) {
    for (end = pos + 1; end < row.length && row[end] === row[pos]; ) end++;
    take(row[pos], t[pos], t[end - 1]); // events of one output mostly follow each other, and times go forward
  }
  for (const block of blocks) take(block.row, block.from_ns, block.to_ns ?? Infinity);
  return [...spans.values()];
}

/**
 * Return a place for each span: the first that is free when it begins.
 * @template T
 * @param {Span<T>[]} spans
 */
function places(spans) {
  /** @type {number[]} when each place is free again */
  const free = [];
  /** @type {Map<T, number>} */
  const found = new Map();
  for (const { key, from, to } of [...spans].sort((a, b) => a.from - b.from || a.to - b.to)) {
    const known = free.findIndex((end) => end <= from);
    const place = known < 0 ? free.length : known;
    free[place] = to;
    found.set(key, place);
  }
  return found;
}

/** @param {number[]} numbers of places */
function most(numbers) {
  return numbers.reduce((last, each) => Math.max(last, each), -1) + 1;
}

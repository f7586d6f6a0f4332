// The rows that two exchanges have in common: aligned by item, each with the events of both sides.

/**
 * The blocks of a row of the picture, and which events of each side stand on it.
 * @typedef {{ label: string, kind: string, a: Block[], b: Block[], ticks: { a: Tick[], b: Tick[] } }} PairedRow
 * @typedef {{ pos: number, t: number, type: string }} Tick
 * @typedef {{ session: string, number: number, timeline: Timeline }} Side
 */

/**
 * Put the blocks of two exchanges into rows: the connection, then each pair of items, then blocks that are not an item.
 * @param {Side} a
 * @param {Side} b
 * @param {[number | null, number | null][]} items partners, as indices in the output of each side
 * @returns {PairedRow[]}
 */
export function pairedRows(a, b, items) {
  const sides = { a: ofExchange(a), b: ofExchange(b) };
  /** @type {PairedRow[]} */
  const rows = [];
  /** @param {string} label @param {Block[]} of_a @param {Block[]} of_b */
  const add = (label, of_a, of_b, kind = (of_b[0] ?? of_a[0])?.kind ?? "other") => {
    if (!of_a.length && !of_b.length) return;
    rows.push({ label, kind, a: of_a, b: of_b, ticks: { a: sides.a.ticks(of_a), b: sides.b.ticks(of_b) } });
  };
  add("connection", sides.a.ofRow("connection"), sides.b.ofRow("connection"), "quiet");
  const inOrder = [...items].sort(
    (one, other) => sides.a.begin(one[0], sides.b, one[1]) - sides.a.begin(other[0], sides.b, other[1]),
  );
  for (const [one, other] of inOrder) {
    const of_a = sides.a.ofItem(one);
    const of_b = sides.b.ofItem(other);
    add((of_b[0] ?? of_a[0])?.label ?? "item", of_a, of_b);
  }
  const shown = { a: new Set(items.map(([index]) => index)), b: new Set(items.map(([, index]) => index)) };
  const rest_a = sides.a.others(shown.a);
  const rest_b = sides.b.others(shown.b);
  for (const label of new Set([...rest_a, ...rest_b].map((block) => block.label))) {
    add(
      label,
      rest_a.filter((block) => block.label === label),
      rest_b.filter((block) => block.label === label),
    );
  }
  return rows;
}

/** @param {Side} side */
function ofExchange(side) {
  const { timeline } = side;
  const ticks = timeline.exchanges.find((each) => each.number === side.number);
  const blocks = timeline.blocks.filter((block) => block.exchange === side.number);
  /** @param {Block} block */
  const kindOfRow = (block) => timeline.rows[block.row]?.kind;
  return {
    /** @param {string} kind */
    ofRow: (kind) => blocks.filter((block) => kindOfRow(block) === kind),
    /** @param {number | null} index */
    ofItem: (index) => (index === null ? [] : blocks.filter((block) => block.item === index)),
    /** @param {Set<number | null>} shown */
    others: (shown) =>
      blocks.filter((block) => kindOfRow(block) === "item" && (block.item === null || !shown.has(block.item))),
    /**
     * @param {number | null} index
     * @param {{ ofItem(index: number | null): Block[] }} other
     * @param {number | null} otherIndex
     */
    begin: (index, other, otherIndex) =>
      (blocks.find((block) => index !== null && block.item === index) ?? other.ofItem(otherIndex)[0])?.from_ns ?? 0,
    /** @param {Block[]} own */
    ticks: (own) => {
      /** @type {Tick[]} */
      const found = [];
      if (!ticks || !own.length) return found;
      const rows = new Set(own.map((block) => block.row));
      const first = Math.min(...own.map((block) => block.first_pos ?? 0));
      const last = Math.max(...own.map((block) => block.last_pos ?? ticks.last_pos));
      const before = ticks.last_pos - ticks.t.length + 1;
      for (let n = Math.max(0, first - before); n < ticks.t.length && n + before <= last; n += 1) {
        if (!rows.has(ticks.row[n])) continue;
        found.push({
          pos: n + before,
          t: ticks.t[n],
          type: timeline.types[ticks.type[n]] ?? timeline.kinds[ticks.kind[n]] ?? "",
        });
      }
      return found;
    },
  };
}

/**
 * Return the end of an exchange, in nanoseconds since it began.
 * @param {Side} side
 */
export function endOf(side) {
  const t = side.timeline.exchanges.find((each) => each.number === side.number)?.t ?? [];
  return t.length ? t[t.length - 1] : 0;
}

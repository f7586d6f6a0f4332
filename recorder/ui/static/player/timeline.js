// The events of a session in the order of their time, and the blocks of its lanes.

import { countWhile } from "../search.js";

/**
 * All events of a session, in order of time. An event's place in it is its index; an exchange's place in `exchanges` is
 * its slot. Events with equal times are in order of slot and position.
 */
export class SessionTimeline {
  /** @param {Timeline} timeline */
  constructor(timeline) {
    /** @type {string[]} */
    this.kinds = [];
    /** @type {string[]} */
    this.types = [];
    /** @type {Timeline["rows"]} in the order in which they are drawn */
    this.rows = [];
    /** @type {Block[]} */
    this.blocks = [];
    /** @type {ExchangeTicks[]} */
    this.exchanges = [];
    /** @type {Map<string, number>} the slot of each exchange, by its number and by its id */
    this.slots = new Map();
    /** Time, slot and position of each event. */
    this.time = new Float64Array();
    this.slot = new Int32Array();
    this.pos = new Int32Array();
    /** @type {Int32Array[]} the index of each position, by slot */
    this.places = [];
    /** @type {Map<number, number>} when each exchange began, by its number */
    this.offsets = new Map();
    /** Time of the last event, or of the end of the last block. */
    this.end = 0;
    this.#take(timeline);
  }

  /**
   * Take what is new of an exchange. Return false if events between are missing, so that all has to be loaded again.
   * @param {Timeline} fresh
   */
  add(fresh) {
    for (const grown of fresh.exchanges) {
      const known = this.exchanges[this.slots.get(grown.exchange_id) ?? -1];
      if (grown.last_pos + 1 - grown.t.length > (known?.t.length ?? 0)) return false;
    }
    this.#take(fresh);
    return true;
  }

  /** @param {Timeline} fresh its numbers of rows, kinds and types are valid in it alone */
  #take(fresh) {
    const kinds = fresh.kinds.map((name) => numberOf(this.kinds, name));
    const types = fresh.types.map((name) => numberOf(this.types, name));
    const rows = this.#takeRows(fresh.rows);
    for (const ticks of fresh.exchanges) {
      ticks.kind = renumbered(ticks.kind, kinds);
      ticks.type = renumbered(ticks.type, types);
      ticks.row = renumbered(ticks.row, rows);
      const known = this.exchanges[this.slots.get(ticks.exchange_id) ?? -1];
      if (known) append(known, ticks);
      else this.exchanges.push(ticks);
    }
    this.exchanges.sort((a, b) => a.offset_ns - b.offset_ns || a.number - b.number);
    this.slots = new Map();
    for (const [slot, { number, exchange_id }] of this.exchanges.entries()) {
      this.slots.set(String(number), slot).set(exchange_id, slot);
    }
    const numbers = new Set(fresh.exchanges.map((each) => each.number));
    const before = this.blocks.filter((block) => numbers.has(block.exchange));
    const blocks = fresh.blocks.map((block) => continued({ ...block, row: rows[block.row] }, before));
    const hasItems = blocks.some((block) => block.item !== null);
    // Until the items of an open exchange are known, what is new says nothing of the blocks before it.
    const left = hasItems ? [] : before.filter((block) => !blocks.some((each) => isSameBlock(each, block)));
    this.blocks = [...this.blocks.filter((block) => !numbers.has(block.exchange)), ...left, ...blocks];
    this.#order();
  }

  /**
   * Add rows that are new, in the order of their lanes, and return the number of each given row.
   * @param {Timeline["rows"]} fresh
   */
  #takeRows(fresh) {
    const before = this.rows;
    const added = fresh.filter((row) => !before.some((each) => isSameRow(each, row)));
    if (added.length) {
      this.rows = [...before, ...added].sort(compareRows);
      const moved = before.map((row) => this.rows.indexOf(row));
      if (moved.some((to, from) => to !== from)) {
        for (const ticks of this.exchanges) ticks.row = ticks.row.map((row) => moved[row]);
        for (const block of this.blocks) block.row = moved[block.row];
      }
    }
    return fresh.map((row) => this.rows.findIndex((each) => isSameRow(each, row)));
  }

  /** @param {Block} block */
  isItem(block) {
    return this.rows[block.row]?.kind === "item";
  }

  get length() {
    return this.time.length;
  }

  /**
   * Return the index of the last event at or before a time of the session; 0 if there is none.
   * @param {number} t
   */
  at(t) {
    return Math.max(0, countWhile(this.time.length, (index) => this.time[index] <= t) - 1);
  }

  /**
   * Return the index of an event, of the nearest one if the exchange has no such position.
   * @param {number} slot
   * @param {number} pos
   */
  indexOf(slot, pos) {
    const places = this.places[slot];
    return places?.length ? places[Math.min(places.length - 1, Math.max(0, pos))] : 0;
  }

  /**
   * Return the last position of an exchange at or before an index; -1 if it has not begun.
   * @param {number} slot
   * @param {number} index
   */
  posAt(slot, index) {
    const places = this.places[slot];
    return countWhile(places.length, (pos) => places[pos] <= index) - 1;
  }

  /**
   * Return the slot of an exchange by its number, its id or the beginning of its id; -1 if there is none.
   * @param {string | number} reference
   */
  slotOf(reference) {
    const text = String(reference);
    return this.slots.get(text) ?? this.exchanges.findIndex((each) => each.exchange_id.startsWith(text));
  }

  /** @param {number} index */
  typeOf(index) {
    const ticks = this.exchanges[this.slot[index]];
    const pos = this.pos[index];
    return this.types[ticks.type[pos]] ?? this.kinds[ticks.kind[pos]] ?? "";
  }

  /**
   * Return the silence before an event in its exchange.
   * @param {number} index
   */
  silenceBefore(index) {
    const ticks = this.exchanges[this.slot[index]];
    const pos = this.pos[index];
    return pos > 0 ? Math.max(0, ticks.t[pos] - ticks.t[pos - 1]) : 0;
  }

  #order() {
    const total = this.exchanges.reduce((sum, each) => sum + each.t.length, 0);
    const time = new Float64Array(total);
    const slot = new Int32Array(total);
    const pos = new Int32Array(total);
    this.time = time;
    this.slot = slot;
    this.pos = pos;
    this.places = this.exchanges.map((each) => new Int32Array(each.t.length));
    let end = 0;
    for (const [each, ticks] of this.exchanges.entries()) {
      // A time that goes back counts as the time before it: positions are the order of an exchange.
      const run = new Float64Array(ticks.t.length);
      let latest = -Infinity;
      for (let at = 0; at < run.length; at++) run[at] = latest = Math.max(latest, ticks.offset_ns + ticks.t[at]);
      let from = end;
      while (from > 0 && run.length && time[from - 1] > run[0]) from--;
      this.#merge(from, end, run, each);
      end += run.length;
    }
    for (let index = 0; index < total; index++) this.places[slot[index]][pos[index]] = index;
    this.offsets = new Map(this.exchanges.map((each) => [each.number, each.offset_ns]));
    this.end = total ? time[total - 1] : 0;
    for (const block of this.blocks) this.end = Math.max(this.end, this.endOf(block));
  }

  /**
   * Merge the events of an exchange with those from `from` to `end`, which are later than its first; in place.
   * @param {number} from
   * @param {number} end
   * @param {Float64Array} run
   * @param {number} each slot of the exchange
   */
  #merge(from, end, run, each) {
    const { time, slot, pos } = this;
    let write = end + run.length - 1;
    let left = end - 1;
    let right = run.length - 1;
    while (right >= 0) {
      if (left >= from && time[left] > run[right]) {
        time[write] = time[left];
        slot[write] = slot[left];
        pos[write] = pos[left];
        left--;
      } else {
        time[write] = run[right];
        slot[write] = each;
        pos[write] = right;
        right--;
      }
      write--;
    }
  }

  /**
   * Return the time at which a block begins.
   * @param {Block} block
   */
  startOf(block) {
    return (this.offsets.get(block.exchange) ?? 0) + block.from_ns;
  }

  /**
   * Return the time at which a block ends; an open one ends with the session.
   * @param {Block} block
   */
  endOf(block) {
    return block.to_ns === null ? this.end : (this.offsets.get(block.exchange) ?? 0) + block.to_ns;
  }
}

/**
 * Return the number of a name; one that is new is added.
 * @param {string[]} names
 * @param {string} name
 */
function numberOf(names, name) {
  const known = names.indexOf(name);
  return known >= 0 ? known : names.push(name) - 1;
}

/**
 * Return a column with other numbers; -1 stays -1. Mostly they are the same: then it is the column itself.
 * @param {number[]} column
 * @param {number[]} numbers
 */
function renumbered(column, numbers) {
  if (numbers.every((number, before) => number === before)) return column;
  return column.map((number) => numbers[number] ?? -1);
}

/**
 * @param {ExchangeTicks} known
 * @param {ExchangeTicks} fresh
 */
function append(known, fresh) {
  const skipped = known.t.length - (fresh.last_pos + 1 - fresh.t.length);
  for (const name of /** @type {const} */ (["t", "kind", "type", "row"])) {
    for (let at = Math.max(0, skipped); at < fresh[name].length; at++) known[name].push(fresh[name][at]);
  }
  known.has_ended = fresh.has_ended;
  known.last_pos = Math.max(known.last_pos, fresh.last_pos);
}

/**
 * Return a block with its beginning from before: what is new of an open exchange knows only the end.
 * @param {Block} block
 * @param {Block[]} before
 */
function continued(block, before) {
  const known = before.find((each) => isSameBlock(each, block));
  if (!known || known.from_ns >= block.from_ns) return block;
  return { ...block, from_ns: known.from_ns, first_pos: known.first_pos };
}

/**
 * @param {Block} a
 * @param {Block} b
 */
function isSameBlock(a, b) {
  return a.exchange === b.exchange && a.row === b.row && a.kind === b.kind && a.item === b.item && a.label === b.label;
}

/** @typedef {Timeline["rows"][number]} Row */

/**
 * @param {Row} a
 * @param {Row} b
 */
function isSameRow(a, b) {
  return a.kind === b.kind && a.group === b.group && a.label === b.label;
}

const ROW_KINDS = ["connection", "item", "client"];

/**
 * @param {Row} a
 * @param {Row} b
 */
function compareRows(a, b) {
  return (
    a.group - b.group ||
    ROW_KINDS.indexOf(a.kind) - ROW_KINDS.indexOf(b.kind) ||
    (a.output_index ?? Infinity) - (b.output_index ?? Infinity) ||
    0
  );
}

// The player: a session on one time axis, the conversation as it stood at the playhead, the events and one of them in
// full. It draws what the source gives; states come from tracks, never from a reading of a protocol.

import { count, duration } from "../dom.js";
import { Clock } from "./clock.js";
import { Conversation } from "./conversation.js";
import { EventList } from "./events.js";
import { Follower } from "./follower.js";
import { Inspector } from "./inspector.js";
import { HELP, Keys } from "./keys.js";
import { Lanes, clockTime } from "./lanes.js";
import { LanesTable } from "./lanes_table.js";
import { Layout } from "./layout.js";
import { SessionTimeline, placeMarks } from "./timeline.js";
import { SegmentCache, Track } from "./track.js";
import { Transport, toggle } from "./transport.js";

/** Least time between two changes of the address: browsers refuse more than some 200 in 30 s. */
const ADDRESS_MS = 300;
/** Segments asked for at the same time, while the playhead runs over many. */
const SEGMENTS_AT_ONCE = 3;
/** Pause after a segment that did not come. */
const RETRY_MS = 3000;
/** Durations of draw work that tests and benchmarks can read. */
const FRAMES = 2000;

/**
 * @param {HTMLElement} main
 * @param {Route} route
 * @param {App} app
 * @returns {Promise<Page>}
 */
export async function render(main, route, app) {
  const reference = route.session ?? "latest";
  const [header, first] = await Promise.all([app.source.session(reference), app.source.timeline(reference)]);
  // From here on by its id: `latest` may be another session any moment.
  const id = header.session.session_id;
  const timeline = first.session_id === id ? first : await app.source.timeline(id);
  const player = new Player(reference, header, new SessionTimeline(timeline), app);
  main.classList.add("fill");
  main.append(player.element);
  player.open(route);
  return player;
}

/** The page: moves the playhead, and draws each part of the page as it is there. */
export class Player {
  help = HELP;

  /**
   * @param {string} reference of the session, as the address has it
   * @param {SessionHeader} header
   * @param {SessionTimeline} timeline
   * @param {App} app
   */
  constructor(reference, header, timeline, app) {
    const session = header.session.session_id;
    this.session = session;
    // `latest` may be another session at the next click.
    this.references = new Set(reference === "latest" ? [session] : [reference, session]);
    this.header = header;
    this.timeline = timeline;
    this.app = app;
    this.cache = new SegmentCache();
    /** @type {Map<number, Track>} by number of exchange */
    this.tracks = new Map();
    /** @type {import("./timeline.js").PlacedMark[]} */
    this.marks = [];
    /** @type {Mark[]} */
    this.findings = [];
    this.hasMarks = false;
    this.isLive = false;
    this.behind = "";
    this.drawnIndex = -1;
    /** @type {ExchangeDocument | undefined} */
    this.drawnWrote = undefined;
    this.isRequested = false;
    this.loading = 0;
    /** @type {Set<Track>} */
    this.refused = new Set();
    /** @type {number[]} */
    this.frames = [];
    /** @type {{ exchange: number, pos: number, done: () => void }[]} */
    this.waiting = [];
    this.clock = new Clock(timeline, () => this.invalidate());
    /** @type {import("./follower.js").Follower | null} */
    this.follower = null;
    this.isClosed = false;
    this.wasPlaying = false;
    this.drawnKey = "";
    this.selecting = 0;
    /** @type {number | undefined} */
    this.addressing = undefined;
    const { source } = app;
    this.lanes = new Lanes({
      timeline,
      drag: (t) => this.moved(() => this.clock.seekTime(t)),
      choose: (index) => this.moved(() => this.clock.seek(index)),
    });
    this.lanes.invalidate = () => this.invalidate();
    this.table = new LanesTable({ timeline, choose: (index) => this.moved(() => this.clock.seek(index)) });
    this.conversation = new Conversation({
      wanted: () => this.invalidate(),
      seek: (number, pos) => this.seek(number, pos),
      selected: (chosen) => this.#select(chosen),
      rawLink: (exchange) => (source.isFile ? null : `#/raw/${encodeURIComponent(session)}/${exchange.number}`),
    });
    this.events = new EventList({
      timeline,
      load: (exchange, from, limit) => source.events(session, exchange, from, limit),
      choose: (index) => this.moved(() => this.clock.seek(index)),
    });
    this.inspector = new Inspector({ load: (exchange, pos) => source.event(session, exchange, pos) });
    this.transport = new Transport({
      first: () => this.moved(() => this.clock.seek(0)),
      back: () => this.step(-1),
      toggle: () => this.moved(() => this.clock.toggle()),
      forward: () => this.step(1),
      last: () => this.toEnd(),
      speed: (speed) => void (this.clock.speed = speed),
      skip: (isSkipping) => void (this.clock.isSkipping = isSkipping),
      mark: (direction) => this.stepMark(direction),
      zoom: (factor) => this.zoom(factor),
      showAll: () => this.lanes.showAll(),
      shorten: (isShortened) => this.lanes.shorten(isShortened),
      table: (isTable) => this.#showTable(isTable),
      live: () => this.toEnd(),
    });
    this.view = toggle("JSON", "The exchange as `recorder show --at-event --json` gives it (v)", false, (isJson) => {
      this.conversation.setJson(isJson);
      this.invalidate();
    });
    this.layout = new Layout(this, header);
    this.element = this.layout.element;
    Object.assign(this.element, { player: this });
    this.keys = new Keys(this, app);
    this.#showHeader();
    app.setTitle(String(header.title ?? header.session.name ?? session));
    if (!timeline.length) this.#loadMarks();
    if (!source.isFile) this.#follow();
  }

  #showHeader() {
    const { exchanges } = this.header;
    this.layout.show(this.header, this.timeline);
    this.conversation.setExchanges([...exchanges].sort((a, b) => a.offset_ns - b.offset_ns || a.number - b.number));
  }

  /**
   * Move the playhead to the place of a route: an event, else the end of an exchange, else the end of the session.
   * @param {Route} route
   */
  open(route) {
    const slot = route.exchange === null ? -1 : this.timeline.slotOf(route.exchange);
    if (slot >= 0) this.moved(() => this.clock.seek(this.timeline.indexOf(slot, route.pos ?? Infinity)));
    else this.toEnd();
    if (route.exchange !== null && slot < 0)
      this.app.announce(`There is no exchange ${route.exchange} in this session.`);
  }

  /** @param {Route} route */
  update(route) {
    if (!this.references.has(route.session ?? "")) return false;
    this.open(route);
    return true;
  }

  close() {
    clearTimeout(this.addressing);
    this.keys.close();
    this.isClosed = true;
    this.follower?.close();
    this.lanes.close();
    this.conversation.close();
    this.events.close();
    this.inspector.close();
  }

  /**
   * Move the playhead after an event, and wait until the page shows it.
   * @param {number} exchange number
   * @param {number} pos
   * @returns {Promise<void>}
   */
  seek(exchange, pos) {
    const index = this.timeline.indexOf(this.timeline.slotOf(exchange), pos);
    this.clock.pause();
    this.moved(() => this.clock.seek(index));
    return new Promise((done) => this.waiting.push({ exchange, pos: this.timeline.pos[index], done }));
  }

  /** Return the state that the playhead's exchange is drawn from. */
  document() {
    return this.conversation.sections.get(this.clock.exchange)?.state ?? undefined;
  }

  /** @param {number} count */
  step(count) {
    this.moved(() => this.clock.step(count));
  }

  /**
   * Move the playhead to a share of the time, as it is drawn.
   * @param {number} share
   */
  seekShare(share) {
    const { axis } = this.lanes;
    this.moved(() => this.clock.seekTime(axis.timeOf(axis.length * share)));
  }

  /** Move to the end; an open session is followed from there. */
  toEnd() {
    this.clock.pause();
    this.moved(() => this.clock.seek(this.clock.last));
    this.isLive = this.#isOpen();
    this.#showLive();
  }

  #isOpen() {
    return !this.app.source.isFile && this.timeline.exchanges.some((each) => !each.has_ended);
  }

  /**
   * Move the playhead for the user: it no longer follows the end, and the conversation follows it.
   * @param {() => void} move
   */
  moved(move) {
    this.isLive = false;
    this.conversation.isFollowing = true;
    move();
    this.lanes.reveal(this.clock.t, this.clock.index);
    this.#showLive();
  }

  #showLive() {
    const missing = this.clock.last - this.clock.index;
    const away = missing
      ? `${count(missing)} events · ${duration(this.timeline.time[this.clock.last] - this.clock.t)} behind`
      : "";
    this.transport.showLive(this.#isOpen() || this.isLive, this.isLive, this.isLive ? this.behind : away);
  }

  invalidate() {
    if (this.isRequested || this.isClosed) return;
    this.isRequested = true;
    requestAnimationFrame((now) => {
      this.isRequested = false;
      if (this.isClosed) return;
      const began = performance.now();
      if (this.clock.isPlaying) {
        this.clock.tick(now);
        this.lanes.reveal(this.clock.t, this.clock.index);
      }
      this.#draw();
      this.frames.push(performance.now() - began);
      if (this.frames.length > FRAMES) this.frames.shift();
      if (this.clock.isPlaying) this.invalidate();
      else if (this.clock.index === this.clock.last && this.wasPlaying && this.#isOpen()) this.toEnd();
      this.wasPlaying = this.clock.isPlaying;
    });
  }

  #draw() {
    const { clock, timeline } = this;
    const { index, slot, pos, exchange } = clock;
    const hasMoved = index !== this.drawnIndex;
    this.drawnIndex = index;
    if (hasMoved) this.events.show(index);
    this.lanes.draw(clock.t, index);
    this.transport.show(clock);
    if (!timeline.length) return;
    if (hasMoved) {
      this.inspector.show(exchange, pos, timeline.typeOf(index), this.#marksAt(index));
      this.#describe(index);
      this.#address();
    }
    this.conversation.show((number) => (timeline.places[timeline.slotOf(number)]?.[0] ?? Infinity) <= index, exchange);
    let isReady = false;
    for (const number of this.conversation.visible()) {
      const each = timeline.slotOf(number);
      const isDrawn = this.#drawExchange(
        number,
        number === exchange ? pos : timeline.posAt(each, index),
        clock.t - timeline.exchanges[each].offset_ns,
      );
      if (number === exchange) isReady = isDrawn;
    }
    if (isReady) {
      // The findings come after the first state: both are computed from all of an exchange.
      if (!this.hasMarks) this.#loadMarks();
      this.#mark(exchange, pos);
      this.conversation.reveal(exchange);
    }
    this.element.dataset.exchange = String(exchange);
    this.element.dataset.pos = String(pos);
    this.element.dataset.ready = String(isReady);
    if (isReady) this.#wake(timeline.exchanges[slot].number, pos);
  }

  /**
   * Draw an exchange if its state is here; else ask for it. Return true if it is drawn as it is at the playhead.
   * @param {number} number
   * @param {number} pos
   * @param {number} t_ns
   */
  #drawExchange(number, pos, t_ns) {
    if (pos < 0) return false;
    const track = this.#track(number);
    const state = track.stateAt(pos, t_ns);
    if (state) this.conversation.draw(number, state);
    if (track.has(pos)) {
      // The next segment, before it is needed.
      if (this.clock.isPlaying && number === this.clock.exchange)
        this.#load(track, Math.min(pos + 128, this.timeline.exchanges[this.clock.slot].t.length - 1));
    } else this.#load(track, pos);
    return state !== undefined;
  }

  /**
   * Load a segment, if not too many are on their way; one that did not come is asked for again after a pause.
   * @param {Track} track
   * @param {number} pos
   */
  async #load(track, pos) {
    if (track.has(pos) || this.loading >= SEGMENTS_AT_ONCE || this.refused.has(track)) return;
    this.loading += 1;
    try {
      await track.load(pos);
      if (!track.has(pos)) throw new Error("The viewer does not have the events that its timeline shows.");
    } catch (error) {
      this.app.announce(error instanceof Error ? error.message : String(error));
      this.refused.add(track);
      setTimeout(() => {
        this.refused.delete(track);
        this.invalidate();
      }, RETRY_MS);
    } finally {
      this.loading -= 1;
      this.invalidate();
    }
  }

  /** @param {number} number */
  #track(number) {
    let track = this.tracks.get(number);
    if (!track) {
      track = new Track((at) => this.app.source.segment(this.session, number, at), this.cache);
      this.tracks.set(number, track);
    }
    return track;
  }

  /**
   * Mark what the playhead's event wrote.
   * @param {number} number
   * @param {number} pos
   */
  #mark(number, pos) {
    const state = this.document();
    const key = `${number}/${pos}`;
    if (state === this.drawnWrote && key === this.drawnKey) return;
    this.drawnWrote = state;
    this.drawnKey = key;
    this.conversation.mark(number, this.#track(number).writtenBy(pos) ?? []);
  }

  /**
   * @param {number} exchange
   * @param {number} pos
   */
  #wake(exchange, pos) {
    this.waiting = this.waiting.filter((each) => {
      if (each.exchange !== exchange || each.pos !== pos) return true;
      each.done();
      return false;
    });
  }

  /** @param {number} index */
  #describe(index) {
    const { timeline } = this;
    const ticks = timeline.exchanges[timeline.slot[index]];
    const pos = timeline.pos[index];
    this.lanes.plot.setAttribute("aria-valuenow", String(index));
    this.lanes.plot.setAttribute(
      "aria-valuetext",
      `exchange ${ticks.number}, event ${pos} of ${ticks.t.length - 1}, ${timeline.typeOf(index)}, at ${clockTime(timeline.time[index])}`,
    );
  }

  #address() {
    if (this.addressing) return;
    this.addressing = setTimeout(() => {
      this.addressing = undefined;
      const place = this.isLive ? "" : `/x/${this.clock.exchange}/e/${this.clock.pos}`;
      this.app.replace(`#/s/${encodeURIComponent(this.session)}${place}`);
    }, ADDRESS_MS);
  }

  /** @param {number} index */
  #marksAt(index) {
    return this.marks.filter((each) => each.index === index).map((each) => each.mark);
  }

  async #loadMarks() {
    this.hasMarks = true;
    try {
      const { marks } = await this.app.source.marks(this.session);
      this.findings = marks;
    } catch (error) {
      this.app.announce(`The findings could not be loaded: ${error instanceof Error ? error.message : error}`);
    }
    if (!this.isClosed) this.#placeMarks();
  }

  #placeMarks() {
    this.marks = placeMarks(this.findings, this.timeline);
    this.lanes.marks = this.marks;
    this.table.marks = this.marks;
    this.events.setMarks(this.marks);
    this.transport.setMarks(this.marks.length);
    this.inspector.showMarks(this.#marksAt(this.clock.index));
    this.table.draw();
    this.lanes.redraw();
  }

  /** @param {1 | -1} direction */
  stepMark(direction) {
    const { index } = this.clock;
    const next =
      direction > 0 ? this.marks.find((each) => each.index > index) : this.marks.findLast((each) => each.index < index);
    if (next) this.moved(() => this.clock.seek(next.index));
    else
      this.app.announce(
        this.marks.length ? `There is no ${direction > 0 ? "later" : "earlier"} finding.` : "There are no findings.",
      );
  }

  /** @param {number} factor */
  zoom(factor) {
    this.lanes.zoom(factor, this.lanes.axis.placeOf(this.clock.t));
  }

  /** @param {boolean} isTable */
  #showTable(isTable) {
    this.lanes.element.hidden = isTable;
    this.table.show(isTable);
  }

  /**
   * Mark the events that wrote the selected texts.
   * @param {import("./conversation.js").ChosenText[]} chosen
   */
  async #select(chosen) {
    const mine = ++this.selecting;
    /** @type {number[]} */
    const indices = [];
    let isWhole = true;
    for (const { exchange, path, start, end } of chosen) {
      const slot = this.timeline.slotOf(exchange);
      const pos = exchange === this.clock.exchange ? this.clock.pos : this.timeline.posAt(slot, this.clock.index);
      const { events, isAll } = await this.#track(exchange).writersOf(path, start, end, pos);
      if (mine !== this.selecting || this.isClosed) return;
      isWhole &&= isAll;
      for (const each of events) indices.push(this.timeline.indexOf(slot, each));
    }
    indices.sort((a, b) => a - b);
    if (!indices.length && !this.lanes.writers.length) return;
    this.lanes.writers = indices;
    this.events.setWriters(indices);
    const positions = indices.map((index) => this.timeline.pos[index]);
    const span =
      positions.length > 1
        ? `${count(positions.length)} events, ${positions[0]} to ${positions[positions.length - 1]}`
        : `event ${positions[0]}`;
    this.layout.wrote.textContent = indices.length ? `selected text: ${isWhole ? "" : "the last "}${span}` : "";
    if (indices.length) this.events.list.reveal(indices[0], "center");
    this.invalidate();
  }

  #follow() {
    this.follower = new Follower({
      source: this.app.source,
      session: this.session,
      timeline: () => this.timeline,
      grown: (fresh) => this.#grow(fresh),
      changed: (header) => {
        this.header = header;
        this.#showHeader();
      },
      settled: () => {
        for (const track of this.tracks.values()) track.grew();
        this.#loadMarks();
        this.invalidate();
      },
      failed: (message) => this.app.announce(message),
    });
  }

  /** @param {Timeline} fresh */
  #grow(fresh) {
    const { exchange, pos } = this.clock;
    const wasEmpty = !this.timeline.length;
    if (!this.timeline.add(fresh)) {
      this.app.source.timeline(this.session).then(
        (all) => this.isClosed || this.#grow(all),
        () => undefined,
      );
      return;
    }
    for (const track of this.tracks.values()) track.grew();
    this.clock.index = this.timeline.indexOf(this.timeline.slotOf(exchange), pos);
    this.lanes.setTimeline();
    this.table.draw();
    this.events.setTimeline();
    this.#showHeader();
    this.#placeMarks();
    const last = this.clock.last;
    if (this.isLive || wasEmpty) {
      this.isLive = true;
      this.clock.seek(last);
      this.lanes.reveal(this.clock.t, this.clock.index);
      const began = this.header.exchanges[0]?.started_ns;
      const behind = began ? Math.max(0, Date.now() * 1e6 - began - this.timeline.time[last]) : 0;
      this.behind = behind ? `${duration(behind)} behind` : "";
    }
    this.#showLive();
    this.invalidate();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const command = this.keys.commandOf(event);
    command?.();
    return command !== undefined;
  }
}

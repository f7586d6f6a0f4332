// Types of the viewer's pages, for the type check alone: nothing loads this file.

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Path = (string | number)[];
type Op = ["set", Path, Json] | ["add", Path, string] | ["push", Path, Json] | ["cut", Path];
/** Position, operations; with a third part a step from outside of the exchange, at that time of it. */
type Step = [number, Op[]] | [number, Op[], number];

/** A piece of a track: the document before event `from`, and what each event to `to` changes in it. */
interface Segment {
  exchange_id: string;
  number: number;
  from: number;
  to: number;
  last: number;
  has_ended: boolean;
  state: ExchangeDocument;
  steps: Step[];
}

/** An exchange in the JSON of `recorder show --json`. Drawn generically: keys that are absent do not apply. */
interface ExchangeDocument {
  exchange_id?: string;
  status?: string;
  items?: ItemDocument[];
  anomalies?: { kind: string; pos: number; count: number; detail?: string }[];
  [key: string]: unknown;
}

interface ItemDocument {
  kind: string;
  text?: string;
  arguments?: string;
  output?: string;
  [key: string]: unknown;
}

interface SessionSummary {
  session_id: string;
  name: string;
  title?: string | null;
  [key: string]: unknown;
}

interface ExchangeSummary {
  number: number;
  exchange_id: string;
  offset_ns: number;
  started_ns: number;
  has_ended: boolean;
  events: number;
  duration_ns: number;
  api: string;
  method: string;
  target: string;
  status: string | null;
  thread_id: string | null;
  purpose: string | null;
  model: string | null;
  user_text: string | null;
  is_turn: boolean;
  results: string[];
  /** those among them that failed */
  failed: string[];
  /** tokens that the cache of the provider could have had */
  missed_tokens: number | null;
  total_tokens: number | null;
  cost_usd: string | null;
  agent: string | null;
}

interface SessionHeader {
  session: SessionSummary;
  title: string | null;
  exchanges: ExchangeSummary[];
}

interface ExchangeTicks {
  number: number;
  exchange_id: string;
  offset_ns: number;
  has_ended: boolean;
  last_pos: number;
  t: number[];
  kind: number[];
  type: number[];
  row: number[];
}

interface Block {
  row: number;
  exchange: number;
  from_ns: number;
  to_ns: number | null;
  kind: string;
  label: string;
  item: number | null;
  first_pos: number | null;
  last_pos: number | null;
}

interface Timeline {
  session_id: string;
  exchanges: ExchangeTicks[];
  kinds: string[];
  types: string[];
  rows: { kind: "connection" | "item" | "client"; group: number; label: string; output_index?: number | null }[];
  blocks: Block[];
}

interface Mark {
  exchange: number;
  pos: number | null;
  kind: "lint" | "anomaly";
  severity: string;
  rule: string;
  text: string;
  why?: string | null;
}

/** The positions of events by the number of their exchange. */
interface FoundEvents {
  events: Record<string, number[]>;
  is_all: boolean;
}

/** Recorded bytes: a text if they are UTF-8, else base64. */
type RawBytes = string | { base64: string };

interface EventRow {
  pos: number;
  kind: string;
  type: string | null;
  t_ns: number;
  sequence_number: number | null;
  item_id: string | null;
  output_index: number | null;
  size_bytes: number;
  preview: string;
}

interface EventDetails {
  event: { [key: string]: Json; raw: RawBytes };
  payload: string | null;
  body_offset: number | null;
  reads: [number, number, number][] | null;
  chain: { hash: string; previous: string | null; holds: boolean };
}

interface Grown {
  exchanges: { number: number; exchange_id: string; last_pos: number; has_ended: boolean }[];
}

/** One exchange as it was sent and received. */
interface RawExchange {
  session: { session_id: string; name: string };
  number: number;
  exchanges: number;
  exchange_id: string;
  api: string;
  damage: string | null;
  request: RawRequest;
  response: RawResponse | null;
  end: RawEnd | null;
  file: string;
  copies: Record<string, { text: string | null; note: string | null }>;
}

interface RawRequest {
  method: string;
  target: string;
  upstream: string;
  headers: [string, string][];
  wire_bytes: number;
  body_bytes: number;
  complete: boolean;
  undecoded: string | null;
  redactions?: Record<string, number>;
  size_bytes: number;
  file: string;
}

interface RawResponse {
  status: number;
  reason: string;
  http_version: string;
  headers: [string, string][];
  t_ns: number;
}

interface RawEnd {
  status: string;
  outcome: string;
  error: string | null;
  wire_bytes: number;
  body_bytes: number;
  body_sha256: string;
  gap_bytes: number;
  coding: string | null;
  undecoded: string | null;
  t_ns: number;
}

/** The request of an exchange with all that it continues. */
interface ModelRequest {
  depth: number;
  is_complete: boolean;
  missing_id?: string;
  reason?: string;
  parts: { source: string; number: number; items: number }[];
  size_bytes: number | null;
}

/** A text, of which the beginning may be there. */
interface AskedText {
  text: string;
  chars: number;
}

interface AskedMessage {
  role: string;
  parts: ({
    kind: string;
    name: string | null;
    pictures: import("./player/picture.js").PictureDigest[];
  } & AskedText)[];
}

/** A request for a reader; the texts are absent if only its sizes were asked for. */
interface AskedRequest {
  model: string | null;
  system_chars: number;
  tools: number;
  messages: number;
  /** the messages at its begin that the request before had; null without one */
  kept_messages: number | null;
  dropped_messages: number;
  settings: Record<string, Json>;
  system_differs_at: number | null;
  changed_tools: string[];
  system?: AskedText;
  tool_list?: { name: string; state: string; description: AskedText; parameters: AskedText }[];
  first_message?: number;
  message_list?: AskedMessage[];
}

interface Asked {
  number: number;
  before: number | null;
  is_complete: boolean;
  cache: CacheTurn | null;
  read: AskedRequest | null;
}

/** What the provider's cache had of a request, as in `recorder show --cache --json`. */
interface CacheTurn {
  class: string;
  is_avoidable: boolean;
  input_tokens: number | null;
  could_tokens: number | null;
  cached_tokens: number | null;
  missed_tokens: number | null;
  cost_usd: string | null;
  is_estimate: boolean;
  since_use_ns: number | null;
  previous_number: number | null;
  path: string | null;
  before: string | null;
  after: string | null;
}

/** What two sessions or exchanges differ in. */
interface Comparison {
  a: string;
  b: string;
  is_equal: boolean;
  levels: Record<string, number>;
  pairs: Pair[];
  missing: ComparedExchange[];
  added: ComparedExchange[];
  sessions: { a: ComparedSession; b: ComparedSession };
  command: string;
}

interface ComparedSession {
  session_id: string;
  name: string;
  exchanges: number;
}

interface ComparedExchange {
  number: number;
  exchange_id: string;
  asked: string;
}

interface Pair {
  a: ComparedExchange;
  b: ComparedExchange;
  how: string;
  levels: Level[];
  items: [number | null, number | null][];
}

interface Level {
  level: string;
  count: number;
  differences: Difference[];
  measures: Measure[];
  note: string | null;
  is_compared: boolean;
}

interface Difference {
  where: string;
  change?: string;
  a?: string;
  b?: string;
  a_pos?: number;
  b_pos?: number;
  words?: [string, string][];
}

interface Measure {
  name: string;
  unit: string;
  a: number | null;
  b: number | null;
  ratio: number | null;
  differs: boolean;
}

/** Where the player has its data from: the viewer's server, or the one file. SESSION is any reference. */
interface Source {
  readonly isFile: boolean;
  /** The session of the file; a server has many. */
  readonly only?: string;
  about(): Promise<{ [key: string]: Json }>;
  session(session: string): Promise<SessionHeader>;
  timeline(session: string, exchange?: number, after?: number): Promise<Timeline>;
  marks(session: string): Promise<{ marks: Mark[]; notes?: string[] }>;
  segment(session: string, exchange: number, at: number): Promise<Segment>;
  events(session: string, exchange: number, from: number, limit: number): Promise<{ events: EventRow[] }>;
  event(session: string, exchange: number, pos: number): Promise<EventDetails>;
  find(session: string, text: string): Promise<FoundEvents>;
  asked(session: string, exchange: number, isBrief: boolean): Promise<Asked>;
  /** The bytes of a picture of the response, or of the request as the model saw it. */
  picture(
    session: string,
    exchange: number,
    of: "response" | "model",
    digest: import("./player/picture.js").PictureDigest,
  ): Promise<Blob>;
  /**
   * Calls back when the session has grown, with a sentence when that cannot be known, and with null when it can again.
   * Returns a function that stops it.
   */
  follow(session: string, grew: (grown: Grown) => void, changed: (trouble: string | null) => void): () => void;
}

interface Route {
  /** home, sessions, player, diff, sql or raw */
  page: string;
  session: string | null;
  exchange: string | null;
  pos: number | null;
  query: URLSearchParams;
}

/** What a page gets from the shell. */
interface App {
  source: Source;
  /** Is aborted when the page is left. */
  left: AbortSignal;
  /** Fetches JSON from the API; throws an error with a sentence for people. Without a signal it is given up when the page is left. */
  api(path: string, body?: Json, parse?: (text: string) => any, signal?: AbortSignal): Promise<any>;
  go(hash: string): void;
  /** Changes the address without a new page, for deep links that follow the playhead. */
  replace(hash: string): void;
  setTitle(title: string): void;
  /** Says something to people who listen, and shows it for a moment. */
  announce(message: string): void;
}

interface Page {
  /** Takes a route of the same page and session without a new page; false if it cannot. */
  update?(route: Route): boolean;
  /** Takes a key that is not typed into a field; true if it was one of the page's. */
  key?(event: KeyboardEvent): boolean;
  /** Keys (separated by spaces) and their meaning, for the help. */
  help?: [string, string][];
  close?(): void;
}

type Render = (main: HTMLElement, route: Route, app: App, first: Promise<any>) => Promise<Page>;

/** The bytes of an event: text, base64 of what is none, or parts: texts, and numbers of shared texts. */
type Template = RawBytes | (string | number)[];

/** An exchange in the one file. Columns of events are by position; -1 is none. */
interface FileExchange {
  exchange_id: string;
  last: number;
  has_ended: boolean;
  steps: Step[];
  reads: [number, number, number][];
  events: {
    size: number[];
    sequence_number: (number | null)[];
    output_index: (number | null)[];
    item_ids: string[];
    item_id: number[];
    body_offset: number[];
    data_start: number[];
    data_length: number[];
    read_first: number[];
    read_count: number[];
    /** 32 bytes each, in base64 */
    hash: string;
    raw: Template[];
    preview: string[];
    /** Positions at which the chain does not hold, and of events of which something was taken out */
    broken: number[];
    redacted: number[];
  };
}

/** What was asked in an exchange of the one file: its parts are numbers of templates, each of a value as JSON. */
interface FileAsked extends Omit<Asked, "read"> {
  read: (Omit<AskedRequest, "system" | "tool_list" | "message_list"> & FileAskedParts) | null;
}

interface FileAskedParts {
  system: number;
  tool_list: number[];
  message_list: number[];
}

/** The data of the one file: recorder/ui/html_file.py writes it. */
interface FileData {
  recorder_html: 1;
  about: { [key: string]: Json };
  session: SessionHeader;
  timeline: Timeline;
  marks: { marks: Mark[] };
  exchanges: { [number: string]: FileExchange };
  asked: { [number: string]: FileAsked };
  asked_parts: Template[];
  texts: string[];
  summary: string;
  notes: string[];
}

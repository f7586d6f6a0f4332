// Where pages have their data from: the viewer's server, or the data inside of the one file.

import { el } from "./dom.js";
import { messageOf } from "./format.js";

const GONE = "The viewer does not answer: is `recorder ui` still running?";

/**
 * The token of the viewer is kept in the storage of this origin, which has a port, and sent as a header. A cookie would
 * not do: browsers send it to every port of the machine.
 */
const TOKEN = "recorder.token";
let kept = ""; // for this page, in a browser that stores nothing

/** Where the address of a viewer for many people has the token: no proxy sees it there, and no log of one. */
export const IN_HASH = /^#token=(.+)$/;

/** Take the token out of the address, so that nobody copies it with a link. */
export function takeToken() {
  const inHash = IN_HASH.exec(location.hash)?.[1];
  const given = inHash ?? new URLSearchParams(location.search).get("token");
  if (given === null) return;
  history.replaceState(null, "", location.pathname + (inHash ? "" : location.hash));
  kept = given;
  try {
    localStorage.setItem(TOKEN, given);
  } catch {
    // It is forgotten with the page.
  }
}

function token() {
  try {
    return localStorage.getItem(TOKEN) ?? kept; // of another tab, if the viewer was started again since
  } catch {
    return kept;
  }
}

/**
 * Fetch from the viewer: the answer if it is a success. Throws an error with a sentence for people.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function request(path, options = {}) {
  const headers = { ...options.headers, "x-recorder-token": encodeURIComponent(token()) };
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" }).catch(() => {
    if (options.signal?.aborted) throw new Error("Stopped.");
    throw new Error(GONE);
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw new Error(answer?.error?.message ?? `The viewer answered ${response.status}.`);
}

/**
 * Save an answer of the viewer as a file. A link to it would need the token in its address.
 * @param {string} path
 * @param {string} name
 */
export async function save(path, name) {
  const response = await request(path);
  const href = URL.createObjectURL(await response.blob());
  el("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), SAVING_MS);
}

const SAVING_MS = 60_000; // for a browser to begin with a file, whatever it asks before

/**
 * Fetch JSON from the API: with a body by POST, else by GET. Throws an error with a sentence for people.
 * @param {string} path
 * @param {Json} [body]
 * @param {(text: string) => any} [parse]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function api(path, body, parse = JSON.parse, signal) {
  const options =
    body === undefined
      ? {}
      : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await request(path, { ...options, signal });
  return response
    .text()
    .then(parse)
    .catch(() => {
      throw new Error(signal?.aborted ? "Stopped." : "The answer of the viewer broke off.");
    });
}

/** Pauses before a lost stream is asked for again: the first, each twice the one before, and the longest. */
const AGAIN_MS = 1000;
const LONGEST_MS = 15_000;

/**
 * Listen to one event of a stream of the API until the returned function is called. Calls `changed` with a sentence
 * when the stream is lost, and with null when it is there again. (An EventSource could not send the token.)
 * @param {string} path
 * @param {string} name
 * @param {(data: any) => void} heard
 * @param {(trouble: string | null) => void} changed
 */
export function listen(path, name, heard, changed) {
  const ended = new AbortController();
  let waiting = 0;
  let pause = AGAIN_MS;
  /** @type {string | null} */
  let trouble = null;
  const report = (/** @type {string | null} */ found) => {
    if (found === trouble || ended.signal.aborted) return;
    trouble = found;
    changed(found);
  };
  const open = async () => {
    try {
      const response = await request(path, { signal: ended.signal });
      pause = AGAIN_MS;
      report(null);
      await readEvents(response, name, heard);
    } catch (error) {
      report(messageOf(error));
    }
    if (ended.signal.aborted) return;
    waiting = setTimeout(open, pause);
    pause = Math.min(2 * pause, LONGEST_MS);
  };
  void open();
  return () => {
    ended.abort();
    clearTimeout(waiting);
  };
}

/**
 * Read server-sent events as the viewer writes them, to the end of the stream or of the connection.
 * @param {Response} response
 * @param {string} name
 * @param {(data: any) => void} heard
 */
async function readEvents(response, name, heard) {
  const start = `event: ${name}\ndata: `;
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ value: undefined, done: true }));
    if (done) return;
    const blocks = (text + decoder.decode(value, { stream: true })).split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) if (block.startsWith(start)) heard(JSON.parse(block.slice(start.length)));
  }
}

const encode = encodeURIComponent;

/** @implements {Source} */
export class HttpSource {
  isFile = false;

  about() {
    return api("/api/about");
  }

  /** @param {string} session */
  session(session) {
    return api(`/api/sessions/${encode(session)}`);
  }

  /**
   * @param {string} session
   * @param {number} [exchange]
   * @param {number} [after]
   */
  timeline(session, exchange, after) {
    const query = exchange === undefined ? "" : `?exchange=${exchange}&after=${after ?? -1}`;
    return api(`/api/sessions/${encode(session)}/lanes${query}`);
  }

  /** @param {string} session */
  marks(session) {
    return api(`/api/sessions/${encode(session)}/marks`);
  }

  /**
   * @param {string} session
   * @param {number} exchange
   * @param {number} at
   */
  segment(session, exchange, at) {
    return api(`/api/sessions/${encode(session)}/exchanges/${exchange}/track?at=${at}`);
  }

  /**
   * @param {string} session
   * @param {number} exchange
   * @param {number} from
   * @param {number} limit
   */
  events(session, exchange, from, limit) {
    return api(`/api/sessions/${encode(session)}/exchanges/${exchange}/events?from=${from}&limit=${limit}`);
  }

  /**
   * @param {string} session
   * @param {string} text
   */
  find(session, text) {
    return api(`/api/sessions/${encode(session)}/find?text=${encode(text)}`);
  }

  /**
   * @param {string} session
   * @param {number} exchange
   * @param {number} pos
   */
  event(session, exchange, pos) {
    return api(`/api/sessions/${encode(session)}/exchanges/${exchange}/events/${pos}`);
  }

  /**
   * @param {string} session
   * @param {number} exchange
   * @param {boolean} isBrief
   */
  asked(session, exchange, isBrief) {
    return api(`/api/sessions/${encode(session)}/exchanges/${exchange}/asked${isBrief ? "?brief=1" : ""}`);
  }

  /**
   * @param {string} session
   * @param {number} exchange
   * @param {"response" | "model"} of
   * @param {import("./player/picture.js").PictureDigest} digest
   */
  async picture(session, exchange, of, { sha256 }) {
    const path = `/api/sessions/${encode(session)}/exchanges/${exchange}/picture?of=${of}&sha256=${encode(sha256)}`;
    return (await request(path)).blob();
  }

  /**
   * @param {string} session
   * @param {(grown: Grown) => void} grew
   * @param {(trouble: string | null) => void} changed
   */
  follow(session, grew, changed) {
    return listen(`/api/sessions/${encode(session)}/follow`, "grew", grew, changed);
  }
}

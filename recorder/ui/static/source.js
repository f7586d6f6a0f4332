// Where pages have their data from: the viewer's server, or the data inside of the one file.

import { messageOf } from "./format.js";

const GONE = "The viewer does not answer: is `recorder ui` still running?";

/**
 * Fetch from the viewer: the answer if it is a success. Throws an error with a sentence for people.
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function request(path, options = {}) {
  const response = await fetch(path, { ...options, cache: "no-store" }).catch(() => {
    if (options.signal?.aborted) throw new Error("Stopped.");
    throw new Error(GONE);
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw new Error(answer?.error?.message ?? `The viewer answered ${response.status}.`);
}

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
 * when the stream is lost, and with null when it is there again. The stream is opened again here, since a browser does
 * not do so after a refusal, and after a lost connection always with the same pause.
 * @param {string} path
 * @param {string} name
 * @param {(data: any) => void} heard
 * @param {(trouble: string | null) => void} changed
 */
export function listen(path, name, heard, changed) {
  /** @type {EventSource} */
  let stream;
  let waiting = 0;
  let pause = AGAIN_MS;
  /** @type {string | null} */
  let trouble = null;
  let isClosed = false;
  const report = (/** @type {string | null} */ found) => {
    if (found === trouble || isClosed) return;
    trouble = found;
    changed(found);
  };
  const open = () => {
    stream = new EventSource(path);
    stream.addEventListener("open", () => {
      pause = AGAIN_MS;
      report(null);
    });
    stream.addEventListener(name, (message) => heard(JSON.parse(message.data)));
    stream.addEventListener("error", async () => {
      stream.close();
      const lost = stream;
      waiting = setTimeout(open, pause);
      pause = Math.min(2 * pause, LONGEST_MS);
      const found = await refusal(path);
      if (found !== null && stream === lost) report(found);
    });
  };
  open();
  return () => {
    isClosed = true;
    clearTimeout(waiting);
    stream.close();
  };
}

/**
 * Return why a stream does not come, which an EventSource does not say; null if it would come now.
 * @param {string} path
 */
async function refusal(path) {
  const ended = new AbortController();
  try {
    await request(path, { signal: ended.signal });
    return null;
  } catch (error) {
    return messageOf(error);
  } finally {
    ended.abort();
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
   * @param {number} exchange
   * @param {number} pos
   */
  event(session, exchange, pos) {
    return api(`/api/sessions/${encode(session)}/exchanges/${exchange}/events/${pos}`);
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

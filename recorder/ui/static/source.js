// Where pages have their data from: the viewer's server, or the data inside of the one file.

/** An answer of the API that is no success. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * Fetch JSON from the API: with a body by POST, else by GET. Throws ApiError.
 * @param {string} path
 * @param {Json} [body]
 * @param {(text: string) => any} [parse]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function api(path, body, parse = JSON.parse, signal) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await fetch(path, { ...options, cache: "no-store", signal }).catch(() => {
    if (signal?.aborted) throw new ApiError("Stopped.", 0);
    throw new ApiError("The viewer does not answer: is `recorder ui` still running?", 0);
  });
  const answer = await response.text().then(parse).catch(() => null);
  if (!response.ok) throw new ApiError(answer?.error?.message ?? `The viewer answered ${response.status}.`, response.status);
  return answer;
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
   */
  follow(session, grew) {
    const stream = new EventSource(`/api/sessions/${encode(session)}/follow`);
    stream.addEventListener("grew", (message) => grew(JSON.parse(message.data)));
    return () => stream.close();
  }
}

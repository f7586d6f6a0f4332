// Pictures out of the log: asked for when they are visible, drawn from bytes whose type the viewer has looked at. Sounds
// are said by their length.

import { el } from "../dom.js";
import { duration, messageOf, plural, size } from "../format.js";

/** Pictures of one item or part that are drawn. */
const MOST = 12;

/** @typedef {{ mime_type?: string, size_bytes: number, sha256: string, duration_ms?: number }} PictureDigest */
/** @typedef {(digest: PictureDigest) => Promise<Blob>} LoadPicture */

/**
 * Return the pictures and sounds that the output of an item is about: `{"images": […]}`, or one by itself.
 * @param {unknown} output
 * @returns {PictureDigest[]}
 */
function mediaIn(output) {
  if (typeof output !== "string" || !output.includes('"sha256"')) return [];
  /** @type {any} */
  let value;
  try {
    value = JSON.parse(output);
  } catch {
    return [];
  }
  return (Array.isArray(value?.images) ? value.images : [value]).filter(Boolean);
}

/**
 * @param {unknown} output
 * @param {LoadPicture} load
 */
export function picturesIn(output, load) {
  return pictures(mediaIn(output).filter(isPicture), load);
}

/**
 * Return how long the sound is that an output is about; null if it is about none. Only the log has its bytes.
 * @param {unknown} output
 */
export function soundIn(output) {
  const [sound] = mediaIn(output);
  return typeof sound?.duration_ms === "number" ? `${duration(sound.duration_ms * 1e6)}, ${size(sound.size_bytes)}` : null;
}

/** @param {PictureDigest} found */
function isPicture(found) {
  return typeof found?.sha256 === "string" && /^image\/|^$/.test(String(found.mime_type ?? ""));
}

/**
 * @param {PictureDigest[]} digests
 * @param {LoadPicture} load
 * @returns {HTMLElement[]}
 */
export function pictures(digests, load) {
  const drawn = digests.slice(0, MOST).map((digest) => thumbnail(digest, load));
  const rest = digests.length - drawn.length;
  return rest ? [...drawn, el("span", { class: "quiet" }, `and ${plural(rest, "more image")}`)] : drawn;
}

/**
 * Return a picture, small until it is pressed.
 * @param {PictureDigest} digest
 * @param {LoadPicture} load
 */
function thumbnail(digest, load) {
  const name = `${digest.mime_type || "image"}, ${size(digest.size_bytes)}`;
  const button = el("button", {
    type: "button",
    class: "picture",
    title: name,
    "aria-label": `Image: ${name}`,
    "aria-pressed": "false",
    onclick: () => button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true")),
  });
  const seen = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    try {
      const url = URL.createObjectURL(await load(digest));
      const done = () => URL.revokeObjectURL(url);
      button.replaceChildren(el("img", { src: url, alt: "", onload: done, onerror: done }));
    } catch (error) {
      button.replaceChildren(messageOf(error));
    }
  });
  seen.observe(button);
  return button;
}

// The beginning of the one file: reads its data, says what is in it, and draws the player.

import { parseRoute, start } from "./app.js";
import { fromBase64 } from "./bytes.js";
import { el } from "./dom.js";
import { FileSource } from "./file_source.js";

/**
 * Read the data of the file; a large one is deflated, in base64.
 * @returns {Promise<FileData>}
 */
async function read() {
  const element = /** @type {HTMLElement} */ (document.querySelector("#data"));
  const written = element.textContent ?? "";
  element.remove();
  if (element.dataset.coding !== "deflate") return JSON.parse(written);
  const inflated = new Blob([fromBase64(written)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(inflated).text());
}

/** Draw the file. */
async function open() {
  const data = await read();
  const { session } = data.session;
  const home = `#/s/${session.session_id}`;
  document.querySelector("nav")?.remove();
  document.querySelector(".brand")?.setAttribute("href", home);
  const notes = data.notes.map((note) => el("li", {}, note));
  const note = el("details", { class: "note" }, el("summary", {}, data.summary), el("ul", {}, ...notes));
  document.querySelector("main")?.before(note);
  const { page, session: named } = parseRoute(location.hash, session.session_id);
  if (page !== "player" || (named !== session.session_id && named !== session.name)) {
    history.replaceState(null, "", home);
  }
  await start(new FileSource(data));
}

open().catch((error) => {
  document
    .querySelector("main")
    ?.replaceChildren(el("p", { role: "alert", class: "error" }, `This file cannot be read: ${error}`));
});

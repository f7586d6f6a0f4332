// Links from a comparison into the player, each with the letter of its side.

import { el } from "../dom.js";
import { playerHref } from "../links.js";

/**
 * Make a link to a session, to one of its exchanges, or to an event of that.
 * @param {string} session
 * @param {string} side A or B
 * @param {string} text
 * @param {number} [exchange]
 * @param {number} [pos]
 */
export function playerLink(session, side, text, exchange, pos) {
  return el(
    "a",
    { href: playerHref(session, exchange, pos), class: "side", "aria-label": text ? null : `Open ${side} in the player` },
    el("span", { class: `side-name ${side}` }, side),
    " ",
    text,
  );
}

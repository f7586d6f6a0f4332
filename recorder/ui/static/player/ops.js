// Operations on documents. Values are persistent: an operation copies only what it changes, so equal parts of two
// states are the same object.

/**
 * Return a value with one operation applied; all that it does not touch is shared.
 * @param {unknown} root
 * @param {Op} op
 * @returns {unknown}
 */
export function applied(root, op) {
  return changed(root, op[1], 0, op);
}

/**
 * @param {unknown} node
 * @param {Path} path
 * @param {number} depth
 * @param {Op} op
 * @returns {unknown}
 */
function changed(node, path, depth, op) {
  if (depth === path.length) {
    if (op[0] === "set") return op[2];
    if (op[0] === "add") return (typeof node === "string" ? node : "") + op[2];
    return [...(Array.isArray(node) ? node : []), op[2]];
  }
  const key = path[depth];
  /** @type {any} */
  const copy =
    typeof key === "number" ? [...(Array.isArray(node) ? node : [])] : { .../** @type {object | undefined} */ (node) };
  if (op[0] === "cut" && depth === path.length - 1) {
    if (typeof key === "number") copy.splice(key, 1);
    else delete copy[key];
  } else copy[key] = changed(copy[key], path, depth + 1, op);
  return copy;
}

/**
 * @param {unknown} root
 * @param {Path} path
 * @returns {unknown}
 */
export function valueAt(root, path) {
  /** @type {any} */
  let value = root;
  for (const key of path) value = value?.[key];
  return value;
}

/**
 * Return `fresh` with each part that equals the one of `old` replaced by that, so that identity says what changed.
 * @param {unknown} old
 * @param {unknown} fresh
 * @returns {unknown}
 */
export function shared(old, fresh) {
  if (old === fresh || typeof old !== "object" || typeof fresh !== "object" || old === null || fresh === null) {
    return fresh;
  }
  if (Array.isArray(old) !== Array.isArray(fresh)) return fresh;
  /** @type {any} */
  const before = old;
  /** @type {any} */
  const after = fresh;
  const keys = Object.keys(after);
  let isEqual = keys.length === Object.keys(before).length;
  for (const key of keys) {
    after[key] = shared(before[key], after[key]);
    if (after[key] !== before[key]) isEqual = false;
  }
  return isEqual ? old : fresh;
}

/**
 * Return true if a path is that of a value, or of one that it is a part of.
 * @param {Path} prefix
 * @param {Path} path
 */
export function isPrefix(prefix, path) {
  return prefix.length <= path.length && prefix.every((key, index) => key === path[index]);
}

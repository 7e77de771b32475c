/** What an undo is about, so that it takes back nothing that a cell or another panel has done since. */

/** @typedef {{ head?: string | null, of?: string }} Pin where HEAD was when it was offered, and which operation was meant */

/** The arguments of `undo` and `redo`. @param {Pin} pin */
export function pinned({ head, of }) {
  return { ...(head ? { head } : {}), ...(of ? { of } : {}) };
}

/**
 * A search in words: `var:df is:error log` is two tokens and a text.
 *
 * What a token means is the store's business. Here they only become chips in the search field, and say what is to be
 * marked in the rows that came back.
 */

const TOKEN = /^(var|tag|cell|is):\S+$/;

/**
 * @param {string} query
 * @returns {{ tokens: string[], text: string }}
 */
export function parseQuery(query) {
  const words = query.split(/\s+/).filter(Boolean);
  return {
    tokens: words.filter((word) => TOKEN.test(word)),
    text: words.filter((word) => !TOKEN.test(word)).join(" "),
  };
}

/** @param {string[]} tokens @param {string} text */
export function joinQuery(tokens, text) {
  return [...tokens, text.trim()].filter(Boolean).join(" ");
}

/**
 * Tokens that are finished: all words before the last, and the last too when a space follows.
 *
 * @param {string} typed
 * @returns {{ tokens: string[], rest: string }}
 */
export function finishedTokens(typed) {
  const cut = Math.max(typed.lastIndexOf(" "), -1) + 1;
  const { tokens, text } = parseQuery(typed.slice(0, cut));
  const rest = typed.slice(cut);
  return { tokens, rest: tokens.length ? [text, rest].filter(Boolean).join(" ") : typed };
}

const BEGINNINGS = ["var:", "cell:", "tag:", "branch:", "author:", "is:", "since:"];
const KINDS = ["error", "merge", "agent", "named", "unsaved"];
const DAY = /^(today|yesterday|\d{4}-\d\d-\d\d.*)$/;

/** How what a query may have meant is written, where it found nothing. @param {string} query */
export function formsFor(query) {
  const found = new Set();
  for (const word of query.split(/\s+/)) {
    const [, key = "", value = ""] = /^([a-z]+):(.*)$/.exec(word) ?? [];
    if (key === "since" && !(DAY.test(value) && (!/^\d/.test(value) || !Number.isNaN(Date.parse(value)))))
      found.add("A day is written since:2026-11-01, since:today or since:yesterday.");
    else if (key === "is" && !KINDS.includes(value)) found.add(`There is is:${KINDS.slice(0, -1).join(", is:")} and is:${KINDS.at(-1)}.`);
    else if (key && !BEGINNINGS.includes(`${key}:`))
      found.add(`${key}: is looked for as text. What begins a search: ${BEGINNINGS.join(" ")}`);
  }
  return [...found];
}

/** @typedef {{ names: string[], words: string[] }} Marks what is marked: variables, and pieces of text */

/** @param {string} query @returns {Marks} */
export function queryMarks(query) {
  const { tokens, text } = parseQuery(query);
  const names = tokens.filter((token) => token.startsWith("var:")).map((token) => token.slice(4));
  return { names, words: text.split(" ").filter(Boolean) };
}

/**
 * A text in pieces, those that match marked. Variables match as whole words, a text anywhere and in any case.
 *
 * @param {string} text
 * @param {Marks} marks
 * @returns {[string, boolean][]}
 */
export function markPieces(text, marks) {
  const escape = (/** @type {string} */ word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const names = marks.names.map((name) => `(?<![\\w.])${escape(name).replace(/\\\*/g, "\\w*")}(?!\\w)`);
  const words = marks.words.map(escape);
  if (!names.length && !words.length) return [[text, false]];
  const either = new RegExp(`(${[...names, ...words].join("|")})`, words.length ? "giu" : "gu");
  const pieces = text.split(either).map((piece, at) => /** @type {[string, boolean]} */ ([piece, at % 2 === 1]));
  return pieces.filter(([piece]) => piece !== "");
}

/**
 * Numbers, sizes and times as the panel writes and says them.
 *
 * The words are the same in every locale, as the rest of the panel is in English; times are the reader's own.
 */

/** @import { Sign } from "../history/protocol.js" */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** @type {Record<Sign, { glyph: string, kind: string, word: string }>} */
export const SIGNS = {
  "+": { glyph: "+", kind: "ak-add", word: "added" },
  "~": { glyph: "~", kind: "ak-chg", word: "changed" },
  "-": { glyph: "−", kind: "ak-del", word: "removed" },
  "!": { glyph: "!", kind: "ak-chg", word: "not saved" },
  "=": { glyph: "=", kind: "ak-muted", word: "same" },
};

/** 10000 → "10,000". @param {number} n */
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 1 → "1 commit", 26 → "26 commits". @param {number} n @param {string} one @param {string} [many] */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** @param {number} n @returns {[string, string]} digits (three at most) and unit, decimal */
function sized(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= (at ? 999.5 : 1000) && at < units.length - 1) {
    n /= 1000;
    at += 1;
  }
  const digits = at === 0 || n >= 99.95 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "");
  return [digits, units[at] ?? "B"];
}

/** 23400 → "23.4 kB". @param {number} n */
export function bytes(n) {
  return sized(n).join(" ");
}

/** "118 → 130 kB"; one number where both are the same or one is missing. @param {number | null} old @param {number | null} now */
export function byteChange(old, now) {
  if (old === null || now === null)
    return old === null && now === null ? "" : bytes(/** @type {number} */ (old ?? now));
  const [a, unit] = sized(old);
  const [b, other] = sized(now);
  if (a === b && unit === other) return `${b} ${other}`;
  return unit === other ? `${a} → ${b} ${other}` : `${a} ${unit} → ${b} ${other}`;
}

/** 0.42 → "0.42 s", 130 → "2m 10s". @param {number | null} seconds */
export function took(seconds) {
  if (seconds === null) return "";
  if (seconds < 0.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const [big, small, a, b] =
    whole < 3600
      ? [Math.floor(whole / 60), whole % 60, "m", "s"]
      : [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), "h", "m"];
  return `${big}${a} ${String(small).padStart(2, "0")}${b}`;
}

/** "2m 10s" as it is said: "2 minutes 10 seconds". @param {number | null} seconds */
export function tookSpoken(seconds) {
  const words = /** @type {Record<string, string>} */ ({ h: "hour", m: "minute", s: "second" });
  const parts = took(seconds).matchAll(/([\d.]+) ?([hms])/g);
  return [...parts].map(([, n, unit = ""]) => plural(Number(n), words[unit] ?? "")).join(" ");
}

/** 0.0412 → "$0.04"; what is less than a cent keeps two digits that say something. @param {number} dollars */
export function money(dollars) {
  if (dollars === 0 || dollars >= 0.01) return `$${dollars.toFixed(2)}`;
  return `$${dollars.toFixed(Math.min(8, 1 - Math.floor(Math.log10(dollars))))}`;
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, "0");

/** "17:12". @param {Date} date */
const clock = (date) => `${two(date.getHours())}:${two(date.getMinutes())}`;

/** @param {Date} date */
const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();

/** Whole days between two days of the reader's calendar. @param {Date} date @param {Date} now */
const daysAgo = (date, now) => Math.round((midnight(now) - midnight(date)) / DAY_MS);

/** "now", "27 min" under an hour, then "13:20". @param {number} ms @param {number} now */
export function when(ms, now) {
  const age = now - ms;
  if (Math.abs(age) < MINUTE_MS) return "now";
  if (age > 0 && age < 60 * MINUTE_MS) return `${Math.floor(age / MINUTE_MS)} min`;
  return clock(new Date(ms));
}

/** "Today", "Yesterday", "Thursday 19 November". @param {string} day 2026-11-19 @param {number} now */
export function dayName(day, now) {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  const that = new Date(year, month - 1, date);
  const ago = daysAgo(that, new Date(now));
  if (ago === 0 || ago === 1) return ago === 0 ? "Today" : "Yesterday";
  const name = `${DAYS[that.getDay()]} ${date} ${MONTHS[month - 1]}`;
  return year === new Date(now).getFullYear() ? name : `${name} ${year}`;
}

/** "Fri 20 Nov, 17:12:08". @param {number} ms @param {number} now */
export function stamp(ms, now) {
  const date = new Date(ms);
  const year = date.getFullYear() === new Date(now).getFullYear() ? "" : ` ${date.getFullYear()}`;
  const day = `${DAYS[date.getDay()]?.slice(0, 3)} ${date.getDate()} ${MONTHS[date.getMonth()]?.slice(0, 3)}${year}`;
  return `${day}, ${clock(date)}:${two(date.getSeconds())}`;
}

/** "20 Nov, 17:12", where there is little room. @param {number} ms @param {number} now */
export function shortStamp(ms, now) {
  return stamp(ms, now).replace(/^[^ ]+ /, "").replace(/:\d+$/, "");
}

/** "yesterday 17:12". @param {number} ms @param {number} now */
export function whenSpoken(ms, now) {
  const date = new Date(ms);
  const ago = daysAgo(date, new Date(now));
  const day = ago === 0 ? "today" : ago === 1 ? "yesterday" : `${date.getDate()} ${MONTHS[date.getMonth()]}`;
  return `${day} ${clock(date)}`;
}

/** Seconds that the reader's clock is ahead of UTC. @param {number} now */
export function zone(now) {
  return -new Date(now).getTimezoneOffset() * 60;
}

/** Code is cut in the middle: the part that may be cut, and the last 14 characters, which stay. @param {string} code @returns {[string, string]} */
export function cutMiddle(code) {
  return code.length > 32 ? [code.slice(0, -14), code.slice(-14)] : [code, ""];
}

/** "a, b and c". @param {string[]} names @param {number} [most] */
export function nameList(names, most = 12) {
  return names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}

/** "connect again" → " Connect again.", to stand behind another sentence. @param {string} text */
export function asSentence(text) {
  return text ? ` ${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.` : "";
}

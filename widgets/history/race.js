/**
 * A race: its candidates side by side, a column for each, and the button that merges one.
 *
 * Rows are measures, so that numbers line up to be compared. A candidate that failed cannot be picked, but it can be read:
 * "Open diff" shows what it changed, below.
 */

import { errorText, textButton } from "../shared/buttons.js";
import { el, fill, spoken } from "../shared/dom.js";
import { icon } from "../shared/icons.js";
import { keepKeys } from "../shared/shortcuts.js";
import { mountHistory } from "./panel.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { Done, Host, Queued, RaceCandidate, RaceStatus, State, Transport } from "./protocol.js" */

/** @type {Record<string, string>} how a part of a cell looks */
const MANNERS = { strong: "ak-best", muted: "ak-muted", bad: "ak-del ak-best", good: "ak-add", code: "ak-mono", "+": "ak-add ak-sg", "~": "ak-chg ak-sg", "-": "ak-del ak-sg" };

/**
 * @param {HTMLElement} root @param {Transport} transport @param {Host} host @param {string} id
 * @returns {{ dispose: () => void }}
 */
export function mountRace(root, transport, host, id) {
  const card = new RaceCard(transport, host, id);
  root.append(card.element, card.below);
  return { dispose: () => card.dispose() };
}

class RaceCard {
  /** @param {Transport} transport @param {Host} host @param {string} id */
  constructor(transport, host, id) {
    this.transport = transport;
    this.host = host;
    this.id = id;
    this.element = el("div", { class: "ak-panel ak-raced", role: "region", "aria-label": "Race" });
    this.below = el("div", { class: "ak-below" });
    keepKeys(this.element);
    /** @type {RaceStatus | null} */
    this.race = null;
    this.said = "";
    this.isBad = false;
    this.isBusy = false;
    this.isAsking = false; // whether to discard the candidates
    /** @type {{ number: number, view: { dispose: () => void } } | null} */
    this.open = null;
    this.key = "";
    this.version = "";
    this.turn = 0;
    this.stop = transport.onState((state) => this.#take(state));
    void this.#load();
  }

  dispose() {
    this.stop();
    this.open?.view.dispose();
    this.element.remove();
    this.below.remove();
  }

  /** @param {State} state */
  #take(state) {
    if (state.version !== this.version || !this.race) {
      this.version = state.version;
      void this.#load();
    } else this.#draw();
  }

  async #load() {
    const turn = ++this.turn;
    try {
      const race = await this.transport.ask("race", { id: this.id });
      if (turn !== this.turn) return;
      // What was said of an act is not true any more once its pick was undone.
      if (this.race && this.race.picked !== null && race.picked === null) this.said = "";
      this.race = race;
      this.#draw();
    } catch (error) {
      if (turn === this.turn && !this.race) fill(this.element, el("p", { class: "ak-nothing", role: "alert" }, errorText(error)));
    }
  }

  #draw() {
    const { race } = this;
    if (!race) return;
    const key = JSON.stringify([race, this.said, this.isBusy, this.isAsking, this.transport.canAct(), this.open?.number]);
    if (key === this.key) return;
    this.key = key;
    const focused = this.element.contains(document.activeElement) ? (document.activeElement?.getAttribute("aria-label") ?? "") : "";
    fill(
      this.element,
      el(
        "div",
        { class: "ak-bar" },
        el("strong", {}, "Race"),
        el("span", { class: "ak-raced-task", title: race.task }, race.task),
        el("span", { class: "ak-sp" }),
        el("span", { class: "ak-count" }, "from ", el("span", { class: "ak-mono" }, race.start.slice(0, 8)), ` · ${race.counts}`),
      ),
      el("div", { class: "ak-race-wide" }, this.#table(race)),
      this.#rest(race),
      ...race.notes.map((note) => el("p", { class: "ak-card-note" }, note)),
      this.said ? el("p", { class: `ak-card-note${this.isBad ? " ak-del" : ""}`, role: this.isBad ? "alert" : "status" }, this.said) : null,
    );
    const again = [...this.element.querySelectorAll("button")].find((one) => one.getAttribute("aria-label") === focused);
    if (focused) again?.focus({ preventScroll: true });
  }

  /** @param {RaceStatus} race */
  #table(race) {
    const winner = race.picked ?? race.candidates.find((one) => one.best)?.number ?? 0;
    const win = (/** @type {number} */ number) => (number === winner ? "ak-win" : "");
    return el(
      "table",
      { class: "ak-race", style: `--ak-candidates: ${race.candidates.length}` },
      el(
        "thead",
        {},
        el("tr", {}, el("th", { scope: "col" }, spoken("Measure")), ...race.candidates.map((one) => el("th", { scope: "col", class: win(one.number) }, one.title, badge(race, one)))),
      ),
      el(
        "tbody",
        {},
        ...race.rows.map((row) =>
          el("tr", {}, el("th", { scope: "row" }, row.label), ...row.cells.map((cell, at) => el("td", { class: `${win(at + 1)}${row.label === "Returned" ? " ak-returned" : ""}` }, ...cell.map(lineOf)))),
        ),
      ),
      el("tfoot", {}, el("tr", {}, el("td", {}), ...race.candidates.map((one) => el("td", { class: win(one.number) }, ...this.#ways(race, one))))),
    );
  }

  /** @param {RaceStatus} race @param {RaceCandidate} one @returns {Child[]} */
  #ways(race, one) {
    const isOpen = this.open?.number === one.number;
    const pick = textButton("Pick", () => void this.#pick(one.number), one.best || race.candidates.filter((other) => other.done).length === 1 ? "ak-main" : "");
    pick.setAttribute("aria-label", `Pick candidate ${one.number}`);
    pick.disabled = this.isBusy;
    const diff = textButton(isOpen ? "Close diff" : "Open diff", () => this.#diff(race, one), "ak-quiet");
    diff.setAttribute("aria-label", `${isOpen ? "Close" : "Open"} diff of candidate ${one.number}`);
    const mayPick = one.done && race.over && race.picked === null && !race.discarded && this.transport.canAct();
    return [mayPick ? pick : null, one.tip && one.tip !== race.start ? diff : null];
  }

  /** What to do with the branches of the candidates, once all have ended. @param {RaceStatus} race @returns {Child} */
  #rest(race) {
    if (race.discarded) return el("p", { class: "ak-card-note" }, race.picked === null ? "The candidates were discarded." : "The others were discarded.");
    if (!race.over || !race.deletes || !this.transport.canAct()) return null;
    if (race.picked !== null && race.candidates.length < 2) return null; // its branch is all there is
    const name = race.picked === null ? (race.candidates.length === 1 ? "Discard" : "Discard all") : "Discard the others";
    if (!this.isAsking) {
      const ask = textButton(`${name}…`, () => this.#asking(true), "ak-quiet");
      ask.disabled = this.isBusy;
      return el("div", { class: "ak-raced-rest" }, ask);
    }
    const discard = textButton(name, () => void this.#act("Their branches go when it ends.", () => this.transport.act("discard", { race: this.id })), "ak-danger");
    const keep = textButton("Keep", () => this.#asking(false), "ak-quiet");
    discard.disabled = keep.disabled = this.isBusy;
    return el("div", { class: "ak-raced-rest", role: "group", "aria-label": name }, el("span", {}, race.deletes), discard, keep);
  }

  /** @param {boolean} isAsking */
  #asking(isAsking) {
    this.isAsking = isAsking;
    this.said = "";
    this.#draw();
    // It asks before it deletes, so the way back is what the keyboard is on.
    const [first, last] = [...this.element.querySelectorAll(".ak-raced-rest button")].map((one) => /** @type {HTMLElement} */ (one));
    (last ?? first)?.focus({ preventScroll: true });
  }

  /** @param {number} number */
  async #pick(number) {
    await this.#act("The pick is made when it ends.", () => this.transport.act("pick", { race: this.id, number }));
  }

  /** @param {string} later @param {() => Promise<Done | Queued>} act */
  async #act(later, act) {
    this.isBusy = true;
    this.#draw();
    try {
      const answer = await act();
      this.isBad = false;
      this.said = "queued" in answer ? `A cell is running. ${later}` : [answer.done, ...answer.notes].join(" ");
    } catch (error) {
      this.isBad = true;
      this.said = errorText(error);
    }
    this.isBusy = this.isAsking = false;
    await this.#load();
    this.#draw();
  }

  /** What a candidate changed, in the comparison of the history. @param {RaceStatus} race @param {RaceCandidate} one */
  #diff(race, one) {
    const was = this.open;
    was?.view.dispose();
    this.open = null;
    if (was?.number !== one.number) {
      const compare = { a: race.start, b: one.tip };
      this.open = { number: one.number, view: mountHistory(this.below, this.transport, { ...this.host, start: { compare } }) };
    }
    this.#draw();
  }
}

/** @param {RaceStatus} race @param {RaceCandidate} one */
function badge(race, one) {
  if (race.picked === one.number) return el("span", { class: "ak-badge ak-add" }, icon("ok"), "picked");
  return one.best ? el("span", { class: "ak-badge ak-add" }, icon("ok"), "best") : null;
}

/** @param {[string, string][]} parts */
function lineOf(parts) {
  return el("div", {}, ...parts.map(([text, manner]) => (text ? el("span", { class: MANNERS[manner] ?? "" }, manner === "-" ? "−" : text) : null)));
}

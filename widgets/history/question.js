/**
 * What an agent asks its person in words: the question, a field for the answer, and, once it was given, what it was.
 *
 * The card takes no focus by itself. What is typed stays in the field until the answer was taken, also where it was refused.
 */

import { el, fill, freshId } from "../shared/dom.js";
import { icon } from "../shared/icons.js";
import { NOW, ago, footWithoutButtons, waitingMark } from "./approval.js";

/** @import { Child } from "../shared/dom.js" */
/** @import { RunDetails, RunQuestion } from "./protocol.js" */
/** @typedef {{ now: number, canAct: boolean, waits: string, number: number, isGoing: boolean }} QuestionLook as CardLook; `number`: which question */

export class QuestionCard {
  /** @param {(answer: string) => void} answer */
  constructor(answer) {
    this.answer = answer;
    this.title = freshId("question");
    this.element = el("div", { class: "ak-card", role: "group", tabindex: 0, "aria-labelledby": this.title });
    this.key = "";
    this.about = ""; // the run and the question that the draft answers
    this.draft = "";
    // What is typed here is not the notebook's.
    this.element.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
  }

  /** @param {RunDetails} run @param {QuestionLook} look */
  show(run, look) {
    const asked = run.questions[look.number - 1];
    const key = JSON.stringify([run.id, asked, look.number, run.status, look.canAct, look.waits, look.isGoing]);
    if (key === this.key) return; // the field must not go while somebody types
    const about = `${run.id} ${look.number}`;
    if (about !== this.about || asked?.answered) this.draft = "";
    Object.assign(this, { key, about });
    const hadFocus = this.element.contains(document.activeElement);
    fill(this.element, ...(asked && !asked.answered ? this.#asking(run, asked, look) : answeredLines(run, asked, this.title)));
    if (hadFocus) (this.element.querySelector("input") ?? this.element).focus({ preventScroll: true });
  }

  /** @param {RunDetails} run @param {RunQuestion} asked @param {QuestionLook} look @returns {Child[]} */
  #asking(run, asked, look) {
    const text = el("p", { class: "ak-asked", id: freshId("asked") }, asked.text);
    return [
      el(
        "div",
        { class: "ak-dh" },
        waitingMark(),
        el("h4", { id: this.title }, `${run.author.name} asks you`),
        el("span", { class: "ak-count" }, `asked ${ago(asked.asked_ms, look.now)}`),
        el("div", { class: "ak-meta" }, el("span", {}, `Task: ${run.task.trim().split("\n")[0]}`)),
      ),
      text,
      this.#foot(run, look, text.id),
    ];
  }

  /** @param {RunDetails} run @param {QuestionLook} look @param {string} asked the id of the question's text @returns {Child} */
  #foot(run, look, asked) {
    return footWithoutButtons(look, `%agent resume --run ${run.short} ANSWER`) ?? this.#form(run, asked);
  }

  /** @param {RunDetails} run @param {string} asked */
  #form(run, asked) {
    const input = el("input", { type: "text", class: "ak-input", id: freshId("answer"), placeholder: "Your answer", autocomplete: "off", "aria-describedby": asked });
    input.value = this.draft;
    input.addEventListener("input", () => (this.draft = input.value));
    const form = el(
      "form",
      { class: "ak-foot", novalidate: true },
      el("label", { class: "ak-vh", for: input.id }, `Answer to ${run.author.name}`),
      input,
      el("button", { class: "ak-b ak-main", type: "submit" }, "Answer"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const answer = input.value.trim();
      if (answer) this.answer(answer);
      else input.focus({ preventScroll: true });
    });
    return form;
  }
}

/** What was answered. @param {RunDetails} run @param {RunQuestion | undefined} asked @param {string} id @returns {Child[]} */
function answeredLines(run, asked, id) {
  const { name } = run.author;
  const said = asked ? (asked.answered_by ? `${asked.answered_by} answered ${name}` : `${name} was answered`) : `${name} does not ask this any more`;
  return [
    el(
      "div",
      { class: "ak-dh ak-said" },
      el("span", { class: "ak-add" }, icon("ok")),
      el("h4", { id }, said),
      el("span", { class: "ak-count" }, NOW[run.status]),
    ),
    asked ? el("p", { class: "ak-asked ak-past" }, el("span", { class: "ak-muted" }, asked.text), el("span", {}, asked.answer)) : null,
  ];
}

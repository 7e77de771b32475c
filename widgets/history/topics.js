/** Who wants to hear of what. A listener that wants several topics is called once when they come together. */

/** @template {string} Topic */
export class Topics {
  constructor() {
    /** @type {Map<Topic, Set<() => void>>} */
    this.listeners = new Map();
  }

  /** @param {Topic[]} topics @param {() => void} fn @returns {() => void} how to stop */
  on(topics, fn) {
    for (const topic of topics) {
      const those = this.listeners.get(topic) ?? new Set();
      this.listeners.set(topic, those.add(fn));
    }
    return () => topics.forEach((topic) => this.listeners.get(topic)?.delete(fn));
  }

  /** @param {...Topic} topics */
  tell(...topics) {
    const those = new Set(topics.flatMap((topic) => [...(this.listeners.get(topic) ?? [])]));
    for (const fn of those) fn();
  }
}

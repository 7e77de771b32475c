/**
 * A history over REST, which needs no kernel: the routes of `agent_kernel.server`.
 *
 * Answers are kept by the browser and asked for again only where the history has moved (`ETag`), so nothing is kept here.
 */

/** @typedef {{ id: string, name: string, history: string }} Store `history`: what saved panels call it */
/** @typedef {(path: string) => Promise<Response>} Fetch asks the Jupyter server, with all that it wants to see of us */

const API = "agent-kernel/api/v1";
const FRESH_MS = 900; // in which all panels of a page share one look at a version

/** There is no answer, and why; `code` is a word for programs. */
export class RestFailure extends Error {
  /** @param {string} code @param {string} message @param {number} status */
  constructor(code, message, status) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/**
 * `{ from: 20, unfolded: ["a", "b"] }` as `from=20&unfolded=a&unfolded=b`. What is not given is left out.
 *
 * @param {Record<string, unknown>} args
 */
export function queryOf(args) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(args)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) query.append(name, String(one));
    }
  }
  return query.toString();
}

export class Rest {
  /** @param {Fetch} fetch */
  constructor(fetch) {
    this.fetch = fetch;
    /** @type {Map<string, { at: number, version: Promise<string> }>} */
    this.versions = new Map();
    /** @type {RestFailure | null} what is said once the server was found not to know these routes */
    this.absent = null;
  }

  /**
   * The store of a notebook; null: it has none yet.
   *
   * @param {string} path relative to the server's root folder
   * @returns {Promise<Store | null>}
   */
  async notebook(path) {
    return (await this.get("notebooks", { path })).store;
  }

  /** Changes when the history does. @param {Store} store @returns {Promise<string>} */
  version(store) {
    const known = this.versions.get(store.id);
    if (known && performance.now() - known.at < FRESH_MS) return known.version;
    const version = this.get(`stores/${store.id}/version`, {}).then((body) => body.version);
    this.versions.set(store.id, { at: performance.now(), version });
    return version;
  }

  /** @param {Store} store @param {string} op @param {object} args @returns {Promise<any>} */
  ask(store, op, args) {
    return this.get(`stores/${store.id}/${op}`, /** @type {Record<string, unknown>} */ (args));
  }

  /** A bundle as a page. @param {string} path @param {"light" | "dark" | undefined} theme @returns {Promise<string>} */
  async bundle(path, theme) {
    const answer = await this.#asked("bundles", { path, theme });
    return answer.ok ? answer.text() : this.#refuse(answer, await answer.json().catch(() => null));
  }

  /** @param {string} route @param {Record<string, unknown>} args @returns {Promise<any>} */
  async get(route, args) {
    const answer = await this.#asked(route, args);
    const body = await answer.json().catch(() => null);
    return answer.ok && body !== null ? body : this.#refuse(answer, body);
  }

  /** @param {string} route @param {Record<string, unknown>} args */
  async #asked(route, args) {
    if (this.absent) throw this.absent;
    const query = queryOf(args);
    return this.#answer(`${API}/${route}${query ? `?${query}` : ""}`);
  }

  /** @param {Response} answer @param {any} body @returns {never} */
  #refuse(answer, body) {
    if (body?.error) throw new RestFailure(body.error.code, body.error.message, answer.status);
    // The page of a server that does not know these routes, or of what stands before it.
    const absent = new RestFailure("absent", "This Jupyter server does not have the extension of agent_kernel.", answer.status);
    if (answer.status === 404) this.absent = absent;
    throw absent;
  }

  /** @param {string} path */
  async #answer(path) {
    try {
      return await this.fetch(path);
    } catch (error) {
      throw new RestFailure("absent", `The Jupyter server does not answer (${error instanceof Error ? error.message : error}).`, 0);
    }
  }
}

/**
 * What JupyterLab and Notebook 7 load of an extension: an object with `init` and `get`, as module federation has it.
 *
 * Bundlers generate this file. Written by hand, it needs no build: `extension.js` is one ordinary module, and takes the
 * packages of the application that it runs in. The names below get a hash of the file's content when this is installed.
 */
// @ts-check
"use strict";

(() => {
  const NAME = "@agent-kernel/lab";
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;
  const code = new URL("extension.js", here).href;
  const style = new URL("extension.css", here).href;

  /** @type {Record<string, Record<string, { get: () => Promise<() => unknown> }>>} */
  let scope = {};

  /** @param {string} name the newest version of a package that the application shares */
  async function shared(name) {
    const versions = scope[name];
    if (!versions) throw new Error(`${NAME}: ${name} is not shared by this application`);
    const [newest] = Object.keys(versions).sort((a, b) => b.localeCompare(a, undefined, { numeric: true }));
    return (await /** @type {{ get: () => Promise<() => unknown> }} */ (versions[/** @type {string} */ (newest)]).get())();
  }

  /** @type {Record<string, () => Promise<() => unknown>>} */
  const modules = {
    "./extension": async () => {
      const { plugins } = await import(code);
      const found = { __esModule: true, default: await plugins(shared, style) };
      return () => found;
    },
  };

  const container = {
    /** @param {typeof scope} given */
    init(given) {
      scope = given;
    },
    /** @param {string} name */
    get(name) {
      const found = modules[name];
      if (!found) throw new Error(`${NAME}: there is no module ${name}`);
      return found();
    },
  };

  const page = /** @type {{ _JUPYTERLAB?: Record<string, typeof container> }} */ (/** @type {unknown} */ (window));
  page._JUPYTERLAB = page._JUPYTERLAB ?? {};
  page._JUPYTERLAB[NAME] = container;
})();

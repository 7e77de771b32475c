/**
 * The extension of JupyterLab and Notebook 7: a side panel with the history of the open notebook.
 */

/** @param {(name: string) => Promise<any>} shared @param {string} style */
export async function plugins(shared, style) {
  return [];
}

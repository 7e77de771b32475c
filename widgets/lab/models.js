/** Whether the widget that an output was is still there: it lives in its kernel, and a kernel that was restarted has none. */

/** @import { Kernel, MimeModel } from "./jupyter.js" */

export const WIDGET = "application/vnd.jupyter.widget-view+json";

/** Whether this page has it: a model goes by the id of its comm. @param {Kernel | null} kernel @param {MimeModel} model */
export function isHere(kernel, model) {
  const id = model.data[WIDGET]?.model_id;
  return Boolean(id && kernel && !kernel.isDisposed && kernel.hasComm(id));
}

/** Whether the kernel has it. One that is busy answers when its cell has ended. @param {Kernel | null} kernel @param {MimeModel} model */
export async function isAlive(kernel, model) {
  const id = model.data[WIDGET]?.model_id;
  if (!id || !kernel || kernel.isDisposed) return false;
  const found = await kernel.requestCommInfo({ target_name: "jupyter.widget" }).catch(() => null);
  return Boolean(found?.content?.comms?.[id]);
}

/** From "file:line" of a record to the notebook cell or file that it means. */
import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { TranslationBundle } from '@jupyterlab/translation';

const SEED = 0xc70f6907; // ipykernel's own, for the names of cells

/** MurmurHash2 of the UTF-8 bytes of `text`: ipykernel names the file of a cell so. */
export function cellHash(text: string): number {
  const data = new TextEncoder().encode(text);
  const scale = 0x5bd1e995;
  let hash = (SEED ^ data.length) >>> 0;
  let at = 0;
  for (; at + 4 <= data.length; at += 4) {
    let word = (data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)) >>> 0;
    word = Math.imul(word, scale) >>> 0;
    word = Math.imul(word ^ (word >>> 24), scale) >>> 0;
    hash = (Math.imul(hash, scale) ^ word) >>> 0;
  }
  const rest = data.length - at;
  if (rest) {
    for (let i = rest - 1; i >= 0; i--) {
      hash = (hash ^ (data[at + i] << (8 * i))) >>> 0;
    }
    hash = Math.imul(hash, scale) >>> 0;
  }
  hash = Math.imul(hash ^ (hash >>> 13), scale) >>> 0;
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Whether `source` means the cell with this text and number, and which line of it; 0 when it does not. */
export function lineInCell(source: string, text: string, number: number | null): number {
  const named = /In\s?\[(\d+)\]\D+(\d+)/.exec(source);
  if (named) {
    return number !== null && Number(named[1]) === number ? Number(named[2]) : 0;
  }
  const file = /ipykernel_\d+[\\/](\d+)\.py:(\d+)$/.exec(source);
  return file && Number(file[1]) === cellHash(text) ? Number(file[2]) : 0;
}

/** Show the line in a cell of the notebook at `path`, else in its file, else say where it is. */
export async function goTo(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker | null,
  source: string,
  path: string,
  trans: TranslationBundle
): Promise<void> {
  const panel = notebooks?.find(one => one.context.path === path) ?? notebooks?.currentWidget;
  const cells = panel?.content.widgets ?? [];
  for (let i = 0; i < cells.length; i++) {
    const { sharedModel } = cells[i].model;
    const number = 'execution_count' in sharedModel ? (sharedModel.execution_count as number | null) : null;
    const line = lineInCell(source, sharedModel.getSource(), number);
    if (line && panel) {
      app.shell.activateById(panel.id);
      panel.content.activeCellIndex = i;
      await panel.content.scrollToItem(i, 'smart');
      cells[i].editor?.setCursorPosition({ line: line - 1, column: 0 });
      cells[i].editor?.focus();
      return;
    }
  }
  const [, file = '', line = '1'] = /^(.*):(\d+)$/.exec(source) ?? [];
  const root = PageConfig.getOption('serverRoot').replace(/\/?$/, '/');
  if (file.startsWith(root)) {
    const inside = PathExt.normalize(file.slice(root.length));
    await app.commands.execute('docmanager:open', { path: inside, factory: 'Editor' });
    await app.commands.execute('fileeditor:go-to-line', { line: Number(line) }).catch(() => undefined);
    return;
  }
  Notification.info(trans.__('The line is %1; no open notebook and no file of this server has it.', source), {
    autoClose: 6000
  });
}

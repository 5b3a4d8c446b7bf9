/** The status-bar item: what the current kernel's program is doing; a click opens the panel. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { mark, say } from './kit/keep';
import { inside, steps } from './kit/text';
import { DOMAIN, ILive } from './live';

class StatusItem extends Widget {
  constructor(
    private _live: ILive,
    private _trans: TranslationBundle,
    open: () => void
  ) {
    super({ node: document.createElement('div') });
    this.addClass('jp-StatusBar-TextItem');
    this.addClass('wb-Status');
    this._button.type = 'button';
    this._button.title = _trans.__('Open the Workbench panel');
    this._button.addEventListener('click', open);
    this.node.append(this._button);
    _live.changed.connect(this._refresh, this);
    this._refresh();
  }

  private _refresh(): void {
    const status = this._live.link?.snapshot.status;
    const silence = this._live.link?.silence ?? 0;
    const state = silence ? 'silent' : status?.lost.length ? 'task lost' : (status?.state ?? 'empty');
    const facts = status && (status.state === 'starting' ? inside(status) : steps(status));
    const text = state === 'empty' || !status ? this._trans.__('Workbench: no program') : `Workbench: ${state} · ${facts}`;
    say(this._button, text);
    mark(this._button, 'data-state', silence || status?.lost.length ? 'failed' : state);
  }

  dispose(): void {
    this._live.changed.disconnect(this._refresh, this);
    super.dispose();
  }

  private _button = document.createElement('button');
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:status',
  description: 'Shows the state of the current workbench program in the status bar.',
  autoStart: true,
  requires: [ILive],
  optional: [IStatusBar, ITranslator],
  activate: (app: JupyterFrontEnd, live: ILive, bar: IStatusBar | null, translator: ITranslator | null) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    bar?.registerStatusItem('workbench-lab:status', {
      item: new StatusItem(live, trans, () => void app.commands.execute('workbench:open')),
      align: 'left',
      rank: 100
    });
  }
};

import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

vi.mock('@jupyterlab/apputils', () => ({
  ICommandPalette: null,
  IThemeManager: null,
  Notification: { info: vi.fn() },
  WidgetTracker: class {
    forEach(): void {}
  }
}));
vi.mock('@jupyterlab/application', () => ({ ILabShell: null, ILayoutRestorer: null }));
vi.mock('@jupyterlab/launcher', () => ({ ILauncher: null }));
vi.mock('@jupyterlab/notebook', () => ({ INotebookTracker: null }));
vi.mock('@jupyterlab/console', () => ({ IConsoleTracker: null }));
vi.mock('@jupyterlab/settingregistry', () => ({ ISettingRegistry: null }));
vi.mock('@jupyterlab/statusbar', () => ({ IStatusBar: null }));
vi.mock('@jupyterlab/translation', () => ({ ITranslator: null, nullTranslator: null }));
vi.mock('@jupyterlab/ui-components', () => ({ LabIcon: class {} }));
vi.mock('../src/graph/worker', () => ({ WorkerLayouter: class {} }));

import { panelPlugin } from '../src/commands';
import { statusPlugin } from '../src/status';

const PACK = { load: (domain: string) => ({ __: (text: string) => `${domain}: ${text}` }) };
const LIVE = { link: null, name: '', path: '', changed: new Signal({}) };

describe('the words of menus, commands and the status bar', () => {
  it('come from the language pack of the page', () => {
    const commands = new Map<string, { label: any; caption?: string; describedBy?: any }>();
    const app = { commands: { addCommand: (id: string, options: any) => commands.set(id, options) }, shell: {} };
    (panelPlugin.activate as any)(app, LIVE, null, null, null, null, null, null, null, PACK);
    expect(commands.size).toBe(7);
    for (const [id, { label, caption, describedBy }] of commands) {
      const said = typeof label === 'function' ? label({}) : label;
      expect([id, said.startsWith('workbench: ')]).toEqual([id, true]);
      expect([id, caption === undefined || caption.startsWith('workbench: ')]).toEqual([id, true]);
      expect([id, describedBy?.args.type]).toEqual([id, 'object']);
    }
  });

  it('name the item of the status bar', () => {
    const register = vi.fn();
    (statusPlugin.activate as any)({}, LIVE, { registerStatusItem: register }, PACK);
    const button = register.mock.calls[0][1].item.node.querySelector('button');
    expect([button.title, button.textContent]).toEqual([
      'workbench: Open the Workbench panel',
      'workbench: Workbench: no program'
    ]);
  });
});

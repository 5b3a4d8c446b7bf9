/** Commands, menu, launcher tile, settings and layout restore of the Workbench panel. */
import { ILabShell, ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, Notification, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { DOMAIN, ILive } from './live';
import { workbenchIcon } from './icon';
import { WorkbenchPanel } from './panel';
import { goTo } from './source';

export namespace CommandIDs {
  export const open = 'workbench:open';
  export const pin = 'workbench:pin';
  export const move = 'workbench:move';
  export const pause = 'workbench:pause';
  export const resume = 'workbench:resume';
  export const stop = 'workbench:stop';
  export const tour = 'workbench:open-tour';
}

const PLUGIN = 'workbench-lab:panel';
const CATEGORY = 'Workbench';
const TOUR = '00_tour.ipynb';
const COPY = 'my_tour.ipynb'; // git does not see it

const NO_ARGUMENTS = { args: { type: 'object', properties: {} } } as const;

type Area = 'main' | 'right';

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The Workbench panel: graph, step times, series and stragglers of the running kernel.',
  autoStart: true,
  requires: [ILive],
  optional: [
    ICommandPalette,
    ILauncher,
    ILayoutRestorer,
    ISettingRegistry,
    IThemeManager,
    ILabShell,
    INotebookTracker,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    live: ILive,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    themes: IThemeManager | null,
    labShell: ILabShell | null,
    notebooks: INotebookTracker | null,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const tracker = new WidgetTracker<WorkbenchPanel>({ namespace: 'workbench' });
    let settings: ISettingRegistry.ISettings | null = null;
    let area: Area = 'main';

    const place = (widget: WorkbenchPanel) => {
      widget.wordless = area !== 'main';
      const beside = [...app.shell.widgets(area)].find(one => one !== widget && one instanceof WorkbenchPanel);
      const where = beside ? ({ mode: 'tab-after', ref: beside.id } as const) : ({ mode: 'split-right' } as const);
      app.shell.add(widget, area, area === 'main' ? { ...where, activate: false } : { rank: 900 });
    };
    const apply = () => {
      const before = area;
      // Notebook 7 shows one widget in its main area, the notebook
      area = labShell ? ((settings?.get('area').composite as Area) ?? 'main') : 'right';
      tracker.forEach(panel => {
        panel.configure(1000 * Number(settings?.get('layoutSeconds').composite ?? 15));
        if (panel.isAttached && area !== before) {
          place(panel);
          app.shell.activateById(panel.id);
        }
      });
    };
    /** The panel of the notebook at `path`, of '' the one that follows the user. */
    const make = (path: string) => {
      const subject = path ? live.pinned(path) : live;
      const panel = new WorkbenchPanel(subject, !!path, {
        tour: () => void app.commands.execute(CommandIDs.tour),
        jump: (source, notebook) => void goTo(app, notebooks, source, notebook, trans),
        pin: notebook => void app.commands.execute(CommandIDs.open, { path: notebook })
      });
      panel.disposed.connect(() => 'dispose' in subject && (subject as IDisposable).dispose());
      return panel;
    };
    const ready = registry
      ?.load(PLUGIN)
      .then(loaded => {
        settings = loaded;
        loaded.changed.connect(apply);
        apply();
      })
      .catch(reason => console.error('workbench: settings could not be loaded', reason));

    app.commands.addCommand(CommandIDs.open, {
      label: args => (args.isLauncher ? 'Workbench' : trans.__('Open Workbench')),
      caption: trans.__('Watch the graph, step times, loss and stragglers of the running kernel'),
      icon: workbenchIcon,
      describedBy: { args: { type: 'object', properties: { isLauncher: { type: 'boolean' }, path: { type: 'string' } } } },
      execute: async args => {
        await ready;
        const path = String(args.path ?? '');
        const panel = tracker.find(one => one.path === path) ?? make(path);
        if (!tracker.has(panel)) {
          await tracker.add(panel);
        }
        apply();
        if (!panel.isAttached) {
          place(panel);
        }
        app.shell.activateById(panel.id);
        return panel;
      }
    });
    app.commands.addCommand(CommandIDs.pin, {
      label: trans.__('Workbench: Pin a Panel to This Notebook'),
      caption: trans.__('Keep a panel with the notebook you are in, whatever you turn to'),
      isEnabled: () => live.path !== '',
      describedBy: NO_ARGUMENTS,
      execute: () => app.commands.execute(CommandIDs.open, { path: live.path })
    });
    app.commands.addCommand(CommandIDs.move, {
      label: () =>
        area === 'main' ? trans.__('Workbench: Move Panel to the Sidebar') : trans.__('Workbench: Move Panel to the Main Area'),
      isEnabled: () => settings !== null && labShell !== null,
      describedBy: NO_ARGUMENTS,
      execute: async () => {
        await settings?.set('area', area === 'main' ? 'right' : 'main');
        await app.commands.execute(CommandIDs.open);
      }
    });
    app.commands.addCommand(CommandIDs.tour, {
      label: args => (args.isLauncher ? trans.__('The tour') : trans.__('Workbench: Open the Tour')),
      caption: trans.__('A notebook that builds a graph, trains it on a cluster and shows it here'),
      icon: args => (args.isLauncher ? workbenchIcon : undefined),
      describedBy: { args: { type: 'object', properties: { isLauncher: { type: 'boolean' } } } },
      execute: () => openTour(app, trans)
    });
    const controls = {
      pause: trans.__('Workbench: Pause Training'),
      resume: trans.__('Workbench: Resume Training'),
      stop: trans.__('Workbench: Stop Training')
    };
    for (const [name, label] of Object.entries(controls) as [keyof typeof controls, string][]) {
      app.commands.addCommand(CommandIDs[name], {
        label,
        isEnabled: () => live.link?.connected ?? false,
        describedBy: NO_ARGUMENTS,
        execute: () => live.link?.command(name)
      });
    }
    live.changed.connect(() => {
      const connected = live.link?.connected ?? false;
      if (live.path !== where) {
        where = live.path;
        app.commands.notifyCommandChanged(CommandIDs.pin);
      }
      if (connected !== enabled) {
        enabled = connected;
        app.commands.notifyCommandChanged(CommandIDs.pause);
        app.commands.notifyCommandChanged(CommandIDs.resume);
        app.commands.notifyCommandChanged(CommandIDs.stop);
      }
    });
    let [enabled, where] = [false, ''];

    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    launcher?.add({ command: CommandIDs.open, args: { isLauncher: true }, category: CATEGORY, rank: 0 });
    launcher?.add({ command: CommandIDs.tour, args: { isLauncher: true }, category: CATEGORY, rank: 1 });
    themes?.themeChanged.connect(() => tracker.forEach(panel => panel.restyle()));
    labShell?.layoutModified.connect(() => tracker.forEach(panel => panel.update()));
    void restorer?.restore(tracker, {
      command: CommandIDs.open,
      args: panel => ({ path: panel.path }),
      name: panel => panel.path || 'panel'
    });
  }
};

/** Open a copy of the tour where the server has one, so that running it changes nothing of the checkout. */
async function openTour(app: JupyterFrontEnd, trans: TranslationBundle): Promise<void> {
  const contents = app.serviceManager.contents;
  for (const folder of ['notebooks', '']) {
    const parent = await contents.get('');
    const known = folder === '' || parent.content.some((item: { name: string }) => item.name === folder);
    const listing = known ? (await contents.get(folder)).content : [];
    if (listing.some((item: { name: string }) => item.name === TOUR)) {
      const path = (name: string) => (folder ? `${folder}/${name}` : name);
      if (!listing.some((item: { name: string }) => item.name === COPY)) {
        const made = await contents.copy(path(TOUR), folder);
        await contents.rename(made.path, path(COPY));
      }
      await app.commands.execute('docmanager:open', { path: path(COPY) });
      return;
    }
  }
  Notification.info(trans.__("The tour is notebooks/%1 in the workbench checkout; 'make lab' opens it.", TOUR));
}

/** Commands, menu, launcher tile, settings and layout restore of the Workbench panel. */
import { ILabShell, ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, Notification, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { ILive } from './live';
import { workbenchIcon } from './icon';
import { WorkbenchPanel } from './panel';
import { goTo } from './source';

export namespace CommandIDs {
  export const open = 'workbench:open';
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

type Area = 'main' | 'right';

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description: 'The Workbench panel: graph, step times, series and stragglers of the running kernel.',
  autoStart: true,
  requires: [ILive],
  optional: [ICommandPalette, ILauncher, ILayoutRestorer, ISettingRegistry, IThemeManager, ILabShell, INotebookTracker],
  activate: (
    app: JupyterFrontEnd,
    live: ILive,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    themes: IThemeManager | null,
    labShell: ILabShell | null,
    notebooks: INotebookTracker | null
  ) => {
    const tracker = new WidgetTracker<WorkbenchPanel>({ namespace: 'workbench' });
    let settings: ISettingRegistry.ISettings | null = null;
    let area: Area = 'main';
    let panel: WorkbenchPanel | null = null;

    const place = (widget: WorkbenchPanel) => {
      widget.title.label = area === 'main' ? 'Workbench' : '';
      app.shell.add(widget, area, area === 'main' ? { mode: 'split-right', activate: false } : { rank: 900 });
    };
    const apply = () => {
      const before = area;
      // Notebook 7 shows one widget in its main area, the notebook
      area = labShell ? ((settings?.get('area').composite as Area) ?? 'main') : 'right';
      panel?.configure(1000 * Number(settings?.get('layoutSeconds').composite ?? 15));
      if (panel?.isAttached && area !== before) {
        place(panel);
        app.shell.activateById(panel.id);
      }
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
      label: args => (args.isLauncher ? 'Workbench' : 'Open Workbench'),
      caption: 'Watch the graph, step times, loss and stragglers of the running kernel',
      icon: workbenchIcon,
      describedBy: { args: { type: 'object', properties: { isLauncher: { type: 'boolean' } } } },
      execute: async () => {
        await ready;
        if (!panel || panel.isDisposed) {
          panel = new WorkbenchPanel(
            live,
            () => void app.commands.execute(CommandIDs.tour),
            source => void goTo(app, notebooks, source)
          );
          apply();
        }
        if (!tracker.has(panel)) {
          await tracker.add(panel);
        }
        if (!panel.isAttached) {
          place(panel);
        }
        app.shell.activateById(panel.id);
        return panel;
      }
    });
    app.commands.addCommand(CommandIDs.move, {
      label: () => (area === 'main' ? 'Workbench: Move Panel to the Sidebar' : 'Workbench: Move Panel to the Main Area'),
      isEnabled: () => settings !== null && labShell !== null,
      execute: async () => {
        await settings?.set('area', area === 'main' ? 'right' : 'main');
        await app.commands.execute(CommandIDs.open);
      }
    });
    app.commands.addCommand(CommandIDs.tour, {
      label: args => (args.isLauncher ? 'The tour' : 'Workbench: Open the Tour'),
      caption: 'A notebook that builds a graph, trains it on a cluster and shows it here',
      icon: args => (args.isLauncher ? workbenchIcon : undefined),
      describedBy: { args: { type: 'object', properties: { isLauncher: { type: 'boolean' } } } },
      execute: () => openTour(app)
    });
    for (const name of ['pause', 'resume', 'stop'] as const) {
      app.commands.addCommand(CommandIDs[name], {
        label: `Workbench: ${name[0].toUpperCase()}${name.slice(1)} Training`,
        isEnabled: () => live.link?.connected ?? false,
        execute: () => live.link?.command(name)
      });
    }
    live.changed.connect(() => {
      const connected = live.link?.connected ?? false;
      if (connected !== enabled) {
        enabled = connected;
        app.commands.notifyCommandChanged(CommandIDs.pause);
        app.commands.notifyCommandChanged(CommandIDs.resume);
        app.commands.notifyCommandChanged(CommandIDs.stop);
      }
    });
    let enabled = false;

    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    launcher?.add({ command: CommandIDs.open, args: { isLauncher: true }, category: CATEGORY, rank: 0 });
    launcher?.add({ command: CommandIDs.tour, args: { isLauncher: true }, category: CATEGORY, rank: 1 });
    themes?.themeChanged.connect(() => panel?.restyle());
    labShell?.layoutModified.connect(() => panel?.update());
    void restorer?.restore(tracker, { command: CommandIDs.open, name: () => 'panel' });
  }
};

/** Open a copy of the tour where the server has one, so that running it changes nothing of the checkout. */
async function openTour(app: JupyterFrontEnd): Promise<void> {
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
  Notification.info(`The tour is notebooks/${TOUR} in the workbench checkout; 'make lab' opens it.`);
}

/** Views in notebooks whose kernel is gone: where their widget is not found, the picture that was saved beside it. */
import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { Panel } from '@lumino/widgets';

type Rendermime = NotebookPanel['content']['rendermime'];
type Renderer = ReturnType<Rendermime['createRenderer']>;
type Model = Parameters<Renderer['renderModel']>[0];

export const WIDGET = 'application/vnd.jupyter.widget-view+json';
const STILL = 'text/html';
const OURS = 'wb-static'; // pictures of ours, and of no other library's widgets
const NOT_FOUND = 'Error displaying widget: model not found'; // what ipywidgets writes into the place of a widget

/** From now on the widgets that `rendermime` makes fall back to their pictures. */
export function keepPictures(rendermime: Rendermime): void {
  const create = rendermime.createRenderer.bind(rendermime);
  rendermime.createRenderer = type => (type === WIDGET ? withPicture(create(type), () => create(STILL)) : create(type));
}

/** The renderer of a widget, which shows what `picture` renders once it has found no model. */
function withPicture(renderer: Renderer, picture: () => Renderer): Renderer {
  const render = renderer.renderModel.bind(renderer);
  // NOTE: it is called again by the widget manager itself, when that has asked a kernel that took its time
  renderer.renderModel = async (model: Model) => {
    await render(model);
    const { [STILL]: still } = model.data;
    if (renderer.node.textContent !== NOT_FOUND || !String(still).includes(OURS) || !(renderer instanceof Panel)) {
      return;
    }
    const shown = picture();
    await shown.renderModel(model);
    renderer.addClass('wb-Still'); // narrower than a widget may be
    shown.node.title = 'As it was last seen. Run the cell again to follow the program.';
    renderer.node.textContent = '';
    renderer.addWidget(shown);
  };
  return renderer;
}

export const stillPlugin: JupyterFrontEndPlugin<void> = {
  id: 'workbench-lab:still',
  description: 'Shows the last picture of a view whose kernel is gone.',
  autoStart: true,
  optional: [INotebookTracker],
  activate: (_app: JupyterFrontEnd, notebooks: INotebookTracker | null) => {
    const keep = (panel: NotebookPanel): void => keepPictures(panel.content.rendermime);
    notebooks?.forEach(keep);
    notebooks?.widgetAdded.connect((_, panel) => keep(panel));
  }
};
